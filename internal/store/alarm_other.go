// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package store

import "time"

// alarm is nothing where there is no timerfd: timers are as precise as Go's are.
type alarm struct{}

func newAlarm() *alarm { return nil }

func (*alarm) set(time.Duration) {}

func (*alarm) close() error { return nil }
