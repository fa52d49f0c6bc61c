// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// Event is something that happened during a run.
type Event struct {
	At     time.Time `json:"at"`
	S      float64   `json:"s"`    // on the run's clock; negative before its start
	Kind   string    `json:"kind"` // "start", "warmup-end", "worker-lost", "target", "stop", "note", …
	Worker string    `json:"worker,omitempty"`
	Text   string    `json:"text,omitempty"`
}

// Kinds of events that say what became of a worker.
const (
	WorkerLost = "worker-lost"
	WorkerBack = "worker-back" // it was lost, and answers again
)

// Other kinds of events that may change how a run goes.
const (
	TargetChanged = "target"
	Annotation    = "annotation" // somebody said that something happened
)

// EventLog appends to a run's events. It is safe for concurrent use.
type EventLog struct {
	mu   sync.Mutex
	file *os.File
}

// OpenEvents opens the events of a run's directory for appending.
func OpenEvents(dir string) (*EventLog, error) {
	f, err := plainfile.Append(dir, EventsFile)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}
	return &EventLog{file: f}, nil
}

// Append writes an event.
func (l *EventLog) Append(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

// Close closes the log.
func (l *EventLog) Close() error { return l.file.Close() }

// Events yields the events of a run's directory. A line that cannot be read is
// yielded as a [*LineError]; the ones after it follow.
func Events(dir string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, err := plainfile.Open(dir, EventsFile)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer f.Close()
		newLines(f, EventsFile, parseJSON[Event]).all(yield)
	}
}
