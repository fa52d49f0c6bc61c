// SPDX-License-Identifier: Apache-2.0

//go:build unix

package liveview

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/kvbench/kvbench/internal/objective"
)

// terminal is a pseudo-terminal with somebody who looks at it.
type terminal struct {
	keyboard *os.File
	tty      *os.File
	screen   vt10x.Terminal
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	term := &terminal{keyboard, tty, vt10x.New(vt10x.WithSize(width, height))}
	term.resize(t, width, height)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		_, _ = io.Copy(term.screen, keyboard)
	}()
	t.Cleanup(func() {
		tty.Close()
		<-seen // the other end is closed: reading ends with an error
		keyboard.Close()
	})
	return term
}

func (term *terminal) resize(t *testing.T, width, height int) {
	t.Helper()
	if err := pty.Setsize(term.keyboard, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		t.Fatal(err)
	}
	term.screen.Resize(width, height)
}

// shows waits until what is on the screen satisfies ok.
func (term *terminal) shows(t *testing.T, what string, ok func(screen string) bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok(term.screen.String()) {
		if time.Now().After(deadline) {
			t.Fatalf("the screen never shows %s:\n%s", what, term.screen.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func once(text string) func(string) bool {
	return func(screen string) bool { return strings.Count(screen, text) == 1 }
}

func TestScreen(t *testing.T) {
	for _, size := range []struct{ width, height int }{{40, 12}, {80, 14}, {80, 24}, {120, 40}, {200, 60}} {
		t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
			term := newTerminal(t, size.width, size.height)
			v := New(term.tty, term.tty, Control{})
			v.Show(judged(fleet(15)))
			term.shows(t, "one frame, and that an objective is broken", func(screen string) bool {
				return once("measuring  42s")(screen) && once("BROKEN since 30 s")(screen)
			})
			for i := range 30 { // frames replace each other
				s := fleet(15)
				s.Elapsed += time.Duration(i+1) * time.Second
				v.Show(s)
				if i == 10 {
					v.Say("kvbench: a word")
				}
			}
			term.shows(t, "the last frame, and that alone", func(screen string) bool {
				return strings.Contains(screen, "measuring  1m12s") && strings.Count(screen, "measuring") == 1 && !strings.Contains(screen, "BROKEN")
			})
			for _, line := range strings.Split(term.screen.String(), "\n") {
				if n := strings.Count(line, "kvbench-"); n > 1 {
					t.Errorf("two workers on a line: %q", line)
				}
			}
			v.Close()
			if screen := term.screen.String(); !strings.Contains(screen, "measuring") {
				t.Errorf("the last frame is gone:\n%s", screen)
			}
		})
	}
}

func TestScreenResized(t *testing.T) {
	term := newTerminal(t, 120, 40)
	v := New(term.tty, term.tty, Control{})
	v.Show(fleet(15))
	term.shows(t, "all workers", func(screen string) bool { return strings.Count(screen, "kvbench-") == 15 })
	term.resize(t, 60, 14)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // a terminal tells its own processes alone
		t.Fatal(err)
	}
	term.shows(t, "a smaller frame", func(screen string) bool {
		return strings.Count(screen, "measuring") == 1 && strings.Contains(screen, "more")
	})
	v.Close()
}

func TestKeys(t *testing.T) {
	term := newTerminal(t, 80, 24)
	var stops, leaves atomic.Int32
	factors := make(chan float64, 10)
	v := New(term.tty, term.tty, Control{Stop: func() { stops.Add(1) }, Leave: func() { leaves.Add(1) }, Scale: func(f float64) { factors <- f }})
	v.Show(fleet(3))
	term.shows(t, "the keys", once(keys))
	press := func(key string) {
		t.Helper()
		if _, err := term.keyboard.WriteString(key); err != nil {
			t.Fatal(err)
		}
	}
	press("?")
	term.shows(t, "help", once("once more: give up"))
	press("?")
	term.shows(t, "no help", func(screen string) bool { return !strings.Contains(screen, "once more: give up") })
	press("+")
	if f := <-factors; f != 1.1 {
		t.Errorf("+ scales by %v", f)
	}
	press("-")
	if f := <-factors; f != 1/1.1 {
		t.Errorf("- scales by %v", f)
	}
	press("d")                  // which does nothing to a run that nobody else would lead
	for read := false; !read; { // a key that is pressed before it is read may become one with it
		press("+")
		select {
		case <-factors:
			read = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	alone := fleet(3)
	alone.Alone = true
	v.Show(alone)
	term.shows(t, "that it can be left", once(keysAlone))
	press("?")
	term.shows(t, "how", once(helpAlone[:70]))
	press("?")
	term.shows(t, "that again", once(keysAlone))
	press("d")
	term.shows(t, "one that leaves", func(string) bool { return leaves.Load() > 0 })
	press("q\x03")
	term.shows(t, "two stops", func(string) bool { return stops.Load() == 2 })
	if n := leaves.Load(); n != 1 {
		t.Errorf("left %d times", n)
	}
	v.Close()
}

// A terminal that takes nothing stops neither the run nor the process.
func TestStoppedTerminal(t *testing.T) {
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	defer keyboard.Close()
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: 200, Rows: 60}); err != nil {
		t.Fatal(err)
	}
	v := New(tty, tty, Control{})
	for i := range 1000 { // nobody reads: soon the terminal is full
		s := fleet(15)
		s.Elapsed = time.Duration(i) * time.Second
		v.Show(s)
		v.Say(strings.Repeat("x", 190))
	}
	l := v.(*screen).live
	v.Close()
	// Only now somebody reads, so that what was left behind can end.
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		_, _ = io.Copy(io.Discard, keyboard)
	}()
	l.done.Wait()
	tty.Close()
	<-seen
}

func TestLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := New(w, w, Control{})
	s := fleet(3)
	v.Show(s)
	v.Show(s) // nothing new
	v.Say("kvbench: a word")
	v.Show(judged(fleet(3)))
	s = judged(fleet(3))
	s.Objectives[2].Finding = objective.Finding{State: objective.Kept, Text: "4.90 ms"}
	v.Show(s)
	v.Close()
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	headline := "    42s measuring 99,000 op/s of 100,000  service p50 2.60 ms p99 5.05 ms  response p99 5.05 ms  done 4,200,000  errors 12 (timeout 10, busy 2)"
	want := headline + "  3/3 workers\nkvbench: a word\n" +
		"objective 'READ response p99 < 5.00 ms' is broken: READ response p99 is 5.05 ms, above 5.00 ms\n" +
		headline + "  READ response p99 BROKEN since 30 s  3/3 workers\n" +
		"objective 'READ response p99 < 5.00 ms' is broken no more, but kept: 4.90 ms\n" +
		headline + "  3/3 workers\n"
	if string(text) != want {
		t.Errorf("lines:\n%s\nwant\n%s", text, want)
	}
}

// A pipe that nobody reads stops nothing either.
func TestBlockedPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := New(w, w, Control{})
	for range 1000 {
		v.Say(strings.Repeat("x", 1000))
	}
	v.Close()
	w.Close()
}

var _ View = (*screen)(nil)
var _ View = (*lines)(nil)
