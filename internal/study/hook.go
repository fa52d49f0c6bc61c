// SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 1 << 20

// hookGrace is how long a command that was told to end has for it.
const hookGrace = 2 * time.Second

// run runs the command in a shell and a process group of its own, and writes what it says to a file. When its
// time is over, or ctx ends, the whole group is told to end, and killed if it does not.
func (h *Hook) run(ctx context.Context, output string, environment []string) error {
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", h.Command)
	said := &bounded{w: out, left: maxOutput}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return endGroup(cmd.Process.Pid) }
	cmd.WaitDelay = hookGrace
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		killGroup(cmd.Process.Pid) // what does not heed; what a command that ended by itself leaves running is its own matter
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: not done within %v; see %s", firstLine(h.Command, 100), time.Duration(h.Timeout), output)
	case errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil: // what it left running has its output still
	case err != nil:
		return fmt.Errorf("%s: %w; see %s", firstLine(h.Command, 100), err, output)
	}
	return nil
}

// bounded passes on what fits.
type bounded struct {
	w    io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.left)]
	b.left -= len(keep)
	if _, err := b.w.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
