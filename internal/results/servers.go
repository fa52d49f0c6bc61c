// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// ServerSample is a line of servers.jsonl: what a store said of itself at one moment.
type ServerSample struct {
	S       float64            `json:"s"`                 // on the run's clock
	Store   string             `json:"store"`             // address, as that of its traffic
	PD      bool               `json:"pd,omitempty"`      // it is PD, and not a store
	Figures map[string]float64 `json:"figures,omitempty"` // by the names in docs/cluster.md; what it does not say is not there
	Missing string             `json:"missing,omitempty"` // why there are none

	// Prompted is how many commands the worker has sent to the store until now so that its threads hand over what they have counted, and all
	// have: the figures lack nothing that was sent before. 0: they may.
	Prompted int64 `json:"prompted,omitempty"`
}

// WriteServer appends what a store said. It may be called from several goroutines, beside [Journal.Write].
func (j *Journal) WriteServer(s ServerSample) error {
	return j.servers.append(filepath.Join(j.dir, ServersFile), s)
}

// late is a file of a journal that not every worker has: it begins with its first line.
type late struct {
	mu    sync.Mutex
	file  *os.File
	lines int
}

func (l *late) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

func (l *late) append(path string, record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode for %s: %w", filepath.Base(path), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666); err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	l.lines++
	return nil
}

// Bounds of a sample, far beyond what a store says.
const (
	maxFigure  = 1e18
	maxFigures = 10_000
)

func parseServer(line []byte) (s ServerSample, err error) {
	if s, err = parseJSON[ServerSample](line); err != nil {
		return s, err
	}
	if !(s.S >= -maxSeconds && s.S <= maxSeconds) || s.Store == "" || len(s.Figures) > maxFigures || s.Prompted < 0 || s.Prompted > maxCount {
		return s, fmt.Errorf("%d figures of store %q at %g s cannot be", len(s.Figures), s.Store, s.S)
	}
	maps.DeleteFunc(s.Figures, func(_ string, v float64) bool { return v < 0 || v > maxFigure })
	return s, nil
}

// Servers yields what stores said of themselves to a worker, whose directory is given. A line
// that cannot be read is yielded as a [*LineError]; the ones after it follow.
func Servers(dir string) iter.Seq2[ServerSample, error] {
	return func(yield func(ServerSample, error) bool) {
		f, err := plainfile.Open(dir, ServersFile)
		if err != nil {
			yield(ServerSample{}, err)
			return
		}
		defer f.Close()
		newLines(f, ServersFile, parseServer).all(yield)
	}
}
