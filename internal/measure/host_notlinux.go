// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package measure

func residentBytes() int64 { return 0 }

func machineTime() (busy, total int64) { return 0, 0 }
