// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm calls ring at a set moment, precisely. Go's own timers end in an
// epoll_wait that counts in milliseconds, so that they are late by 1 ms on an
// idle process, which is more than a TiKV read takes. A timerfd is an event of the
// kernel's high-resolution timer instead, and the runtime's poller, which
// waits for it among the sockets, sees it at once: no thread is kept for it and
// nobody spins. On a busy core it rings with the sockets, when nothing else can run: a Go
// timer would be first, and lanes start calls while their answers wait to be read.
type alarm struct {
	ring func()
	fd   int      // -1 until the first set
	file *os.File // fd as the runtime's poller knows it
	done sync.WaitGroup
	plan *time.Timer // in use when there is no timerfd to be had; it rings in a goroutine of its own
}

func newAlarm(ring func()) *alarm { return &alarm{ring: ring, fd: -1} }

// set makes the alarm ring once after d, and not at the moment set before.
func (a *alarm) set(d time.Duration) {
	if a.fd < 0 && a.plan == nil {
		a.open()
	}
	if a.plan != nil {
		a.plan.Reset(d)
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))} // 0 would stop it
	// It does not block, and the scheduler need not be told of it (package quiet says what that would cost).
	if _, _, err := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); err != 0 {
		a.plan = time.AfterFunc(d, a.ring) // never stay asleep for good
	}
}

func (a *alarm) open() {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil { // out of file descriptors
		a.plan = time.AfterFunc(time.Hour, a.ring)
		return
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	conn, err := file.SyscallConn()
	if err != nil { // there is no reason why; but then there is no alarm like this
		file.Close()
		a.plan = time.AfterFunc(time.Hour, a.ring)
		return
	}
	a.fd, a.file = fd, file
	listening := make(chan struct{})
	a.done.Go(func() {
		// The poller reports every expiry, whether the one before was read or not, so
		// that nothing need be read. The read never succeeds: what is asked between two
		// waits is the ringing, but for the first time, before any wait.
		waited := false
		_ = conn.Read(func(uintptr) bool {
			if waited {
				a.ring()
			} else {
				close(listening)
			}
			waited = true
			return false
		}) // until the file is closed
	})
	// A read forgets what the poller reported before it began: an expiry that
	// came earlier would never be heard of.
	<-listening
}

func (a *alarm) close() error {
	if a.plan != nil {
		a.plan.Stop()
	}
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.done.Wait()
	return err
}
