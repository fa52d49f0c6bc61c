// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/printable"
)

// Event is something that happened during a run.
type Event struct {
	At     time.Time `json:"at"`
	S      float64   `json:"s"`    // on the run's clock; negative before its start
	Kind   string    `json:"kind"` // "start", "warmup-end", "worker-lost", "target", "stop", …
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

// Bounds of what may be told of a run.
const (
	MaxAnnotation = 200  // characters of one
	MaxToldEvents = 1000 // of a worker
)

// ErrTooManyEvents is that a worker has been told of so many events that it notes no more.
var ErrTooManyEvents = fmt.Errorf("%d events are noted of this run already, and no more are", MaxToldEvents)

// CheckAnnotation refuses a text that does not fit a time line: it is one line of
// printable characters, [MaxAnnotation] at most, and not empty.
func CheckAnnotation(text string) error {
	n := utf8.RuneCountInString(text)
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("the text is empty: say what happened")
	case n > MaxAnnotation:
		return fmt.Errorf("the text has %d characters: want %d at most", n, MaxAnnotation)
	case printable.Line(text) != text:
		return fmt.Errorf("the text %q is not one line of printable characters", text)
	}
	return nil
}

// WriteEvent appends an event of which the worker has been told. It may be called beside [Journal.Write].
// After a thousand it returns [ErrTooManyEvents].
func (j *Journal) WriteEvent(e Event) error {
	if j.events.count() >= MaxToldEvents {
		return ErrTooManyEvents
	}
	return j.events.append(filepath.Join(j.dir, EventsFile), e)
}

// EventLog appends to a run's events. It is safe for concurrent use.
type EventLog struct {
	mu   sync.Mutex
	file *os.File
}

// OpenEvents opens the events of a run's directory for appending. A last line that a kill
// has torn is ended first, so that it takes none of the others with it.
func OpenEvents(dir string) (*EventLog, error) {
	f, err := plainfile.Append(dir, EventsFile)
	if err == nil {
		if err = endLine(dir, f); err == nil {
			return &EventLog{file: f}, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("open the event log: %w", err)
}

// Annotate appends an annotation to the events of a finished run's directory, in which nobody else may write
// meanwhile: it is an error that wraps [dirlock.ErrInUse] if somebody does. at is on the run's clock.
func Annotate(dir string, at time.Duration, text string) (err error) {
	if err := CheckAnnotation(text); err != nil {
		return err
	}
	lock, err := dirlock.Take(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	run, err := ReadRun(dir)
	if err != nil {
		return err
	}
	end := Duration(run.WarmupS + run.WindowS + run.GraceS)
	if at < 0 || run.WindowS > 0 && at > end {
		return fmt.Errorf("%v is not in the time of run %s, which is from 0s to %v", at.Round(time.Millisecond), run.RunID, end)
	}
	log, err := OpenEvents(dir)
	if err != nil {
		return err
	}
	return errors.Join(log.Append(Event{At: run.Start.Add(at), S: seconds(at), Kind: Annotation, Text: text}), log.Close())
}

// endLine ends the last line of a directory's events, which are open in f.
func endLine(dir string, f *os.File) error {
	in, err := plainfile.Open(dir, EventsFile)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := in.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte("\n"))
	return err
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

// Events yields the events of a run's directory, or of a worker's in it. A line that cannot be read is
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
