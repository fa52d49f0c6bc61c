// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm makes Go's timers precise. While a process has something to do they end in time, but
// when it is idle they end with an epoll_wait that counts in milliseconds: late by 1 ms, which is
// more than a TiKV read takes. A timerfd is an event of the kernel's high-resolution
// timer. It is among the sockets for which the runtime's poller waits; nobody reads it and
// no goroutine is told, but when the poller has returned, the runtime looks after its timers.
//
// A timer that has no alarm is late, not lost.
type alarm struct {
	fd   int // -1 until the first set
	file *os.File
}

func newAlarm() *alarm { return &alarm{fd: -1} }

// set wakes the poller once after d, and not at the moment set before.
func (a *alarm) set(d time.Duration) {
	if a.file == nil && !a.open() {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))} // 0 would stop it
	// It does not block, and the scheduler need not be told of it (package tcp says what that would cost).
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// open tells whether there is a timerfd. There may be no file descriptor to be had.
func (a *alarm) open() bool {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return false
	}
	a.fd, a.file = fd, os.NewFile(uintptr(fd), "timerfd") // non-blocking: the poller takes it
	return true
}

func (a *alarm) close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}
