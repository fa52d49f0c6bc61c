// SPDX-License-Identifier: Apache-2.0

// Package liveview shows a run while it goes on: on a terminal a frame that is drawn anew each second and
// listens to keys, elsewhere a line a second. It never makes the run wait: what cannot be shown at once,
// because the terminal is stopped or nobody reads the other end of a pipe, is dropped.
package liveview

import (
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kvbench/kvbench/internal/coordinator"
)

// Control is what a person may do to a run that is shown on a terminal.
type Control struct {
	Stop  func()               // ask the run to end; a second time, give it up
	Leave func()               // leave a run that goes on by itself
	Scale func(factor float64) // change the target by a factor; it must return at once
}

// View is where a run is shown. Its methods return at once, and may be called from any goroutine.
type View interface {
	// Show shows the run as it is now.
	Show(*coordinator.Snapshot)
	// Say shows a line that stays.
	Say(text string)
	// Close leaves the last frame where it is, and waits a second at most for
	// what has not been written yet. Later calls of Show begin anew.
	Close()
}

// New returns a view on out. If both are terminals, keys are read from in.
func New(in, out *os.File, control Control) View {
	if !term.IsTerminal(int(out.Fd())) {
		return newLines(out)
	}
	if !term.IsTerminal(int(in.Fd())) {
		in = nil
	}
	return &screen{in: in, out: out, control: control}
}

// patience is how long Close waits for a terminal or pipe that takes nothing.
const patience = time.Second
