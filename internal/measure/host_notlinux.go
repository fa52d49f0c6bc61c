// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package measure

import "time"

func residentBytes() int64 { return 0 }

func machineTime() (busy, total int64) { return 0, 0 }

type throttled struct {
	periods int64
	time    time.Duration
}

type throttling struct{}

func newThrottling(string, string) *throttling { return nil }

func (*throttling) since() (t throttled) { return t }

type threadWaits struct{}

func newThreadWaits() *threadWaits { return nil }

func (*threadWaits) since() time.Duration { return 0 }
