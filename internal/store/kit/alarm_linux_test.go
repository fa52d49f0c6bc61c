// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// every is the time between two slots in benchmarks: 5,000 a second.
const every = 200 * time.Microsecond

// cpu reports what the process used for each of a benchmark's rounds.
func cpu(b *testing.B, before time.Duration) {
	b.ReportMetric(float64((used(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

func used(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSleep does nothing but sleep until the next slot, in one thread that asks the
// kernel, unknown to the Go runtime: what a machine takes for waking up. No client that
// wakes up for each operation can be below.
func BenchmarkSleep(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		b.Fatal(err)
	}
	next, before := at.Nano(), used(b)
	for b.Loop() {
		next += every.Nanoseconds()
		at = unix.NsecToTimespec(next)
		_, _, err := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		if err != 0 && err != unix.EINTR {
			b.Fatal(err)
		}
	}
	cpu(b, before)
}

// BenchmarkAlarm sleeps until the next slot as a lane does.
func BenchmarkAlarm(b *testing.B) {
	for _, cores := range []int{1, 2} {
		b.Run(map[int]string{1: "one core", 2: "two cores"}[cores], func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			rang := make(chan struct{}, 1)
			a := newAlarm(func() { rang <- struct{}{} })
			defer a.close()
			next, before := time.Now(), used(b)
			for b.Loop() {
				next = next.Add(every)
				a.set(time.Until(next))
				<-rang
			}
			cpu(b, before)
		})
	}
}

// The alarm is the kernel's timer in the runtime's poller: it rings once for each time that it is
// set, though nobody reads the timer, and no Go timer stands in for it.
func TestAlarmIsTheKernels(t *testing.T) {
	rang := make(chan struct{}, 1000)
	a := newAlarm(func() { rang <- struct{}{} })
	const times = 100
	for range times {
		a.set(10 * time.Microsecond)
		<-rang
	}
	if a.file == nil || a.plan != nil {
		t.Error("a Go timer is in use")
	}
	if err := a.close(); err != nil { // it returns when nobody rings any more
		t.Error(err)
	}
	if n := len(rang); n > 0 {
		t.Errorf("it rang %d times, but was set %d times", times+n, times)
	}
}
