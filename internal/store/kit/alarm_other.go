// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kit

import "time"

// alarm calls ring at a set moment, as precisely as Go's timers are.
type alarm struct{ timer *time.Timer }

func newAlarm(ring func()) *alarm {
	a := &alarm{timer: time.AfterFunc(time.Hour, ring)}
	a.timer.Stop()
	return a
}

// set makes the alarm ring once after d, and not at the moment set before.
func (a *alarm) set(d time.Duration) { a.timer.Reset(d) }

func (a *alarm) close() error {
	a.timer.Stop()
	return nil
}
