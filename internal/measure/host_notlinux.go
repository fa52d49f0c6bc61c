// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package measure

import "time"

func residentBytes() int64 { return 0 }

func machineTime() (busy, total int64) { return 0, 0 }

type threadWaits struct{}

func newThreadWaits() *threadWaits { return nil }

func (*threadWaits) since() time.Duration { return 0 }
