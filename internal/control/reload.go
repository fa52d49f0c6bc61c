// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// reloaded is a value read from files, and read again when one of them has
// changed. There is nothing that watches: whoever gets the value looks.
type reloaded[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	stamp string
	value T
}

// newReloaded reads the value once; unnamed files are left out.
func newReloaded[T any](log *slog.Logger, load func() (T, error), files ...string) (*reloaded[T], error) {
	r := &reloaded[T]{load: load, log: log}
	for _, f := range files {
		if f != "" {
			r.files = append(r.files, f)
		}
	}
	r.stamp = r.stat()
	var err error
	r.value, err = load()
	return r, err
}

// get returns the value as of now. While the files cannot be read, or are only
// half replaced, it stays what it was.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamp := r.stat()
	if stamp == r.stamp {
		return r.value
	}
	r.stamp = stamp // before the load: a change during it has another stamp
	value, err := r.load()
	if err != nil {
		r.log.Warn("control: the files have changed but cannot be used; what was read before stays in force", "error", err)
		return r.value
	}
	r.log.Info("control: read again", "files", strings.Join(r.files, " "))
	r.value = value
	return value
}

func (r *reloaded[T]) stat() string {
	var b strings.Builder
	for _, f := range r.files {
		info, err := os.Stat(f)
		if err != nil {
			b.WriteString("-;")
			continue
		}
		fmt.Fprintf(&b, "%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}
