// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// messages is where messages go: standard error. Where that is a pipe whose reader has stopped reading, what
// is to be said is dropped after a moment: neither a run nor its report waits for it.
func messages(stderr *os.File) (w io.Writer, closed func()) {
	info, err := stderr.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return stderr, func() {}
	}
	d := newDropping(stderr)
	return d, d.close
}

// dropping is a writer that waits for another one no longer than patience, and then drops what it is given
// until the other takes something again. It is safe for concurrent use.
type dropping struct {
	mu      sync.Mutex
	give    chan []byte
	took    chan error // one for each of give
	stuck   bool       // the answer to the last give is not there yet
	dropped int        // writes since
	ended   chan struct{}
}

// patience is how long a message may take.
const patience = time.Second

func newDropping(to io.Writer) *dropping {
	d := &dropping{give: make(chan []byte), took: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		for b := range d.give {
			_, err := to.Write(b)
			d.took <- err
		}
	}()
	return d
}

// Write implements io.Writer. What is dropped is no error.
func (d *dropping) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stuck {
		select {
		case <-d.took:
			d.stuck = false
		default:
			d.dropped++
			return len(b), nil
		}
	}
	text := bytes.Clone(b)
	if d.dropped > 0 {
		text = append(fmt.Appendf(nil, "(%d messages were not shown)\n", d.dropped), text...)
		d.dropped = 0
	}
	d.give <- text
	select {
	case err := <-d.took:
		return len(b), err
	case <-time.After(patience):
		d.stuck = true
		return len(b), nil
	}
}

// close ends the writer, unless a write is stuck, which cannot be called off.
func (d *dropping) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.give)
	if !d.stuck {
		<-d.ended
	}
}
