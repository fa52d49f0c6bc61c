// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// Keep bounds what a worker keeps of finished runs. A run that goes on is not counted.
type Keep struct {
	Runs  int           // 0: 20
	Age   time.Duration // since the last was written; 0: no bound
	Bytes int64         // 0: no bound
}

// surplus returns the runs that must go, of some with the newest first: those beyond a bound of
// age, and then the oldest, those that were collected before those that were not.
func (k Keep) surplus(runs []*workerpb.KeptRun, now time.Time) (gone []*workerpb.KeptRun) {
	kept, bytes := slices.Clone(runs), int64(0)
	for _, r := range runs {
		bytes += r.GetBytes()
	}
	drop := func(i int) {
		bytes -= kept[i].GetBytes()
		gone = append(gone, kept[i])
		kept = slices.Delete(kept, i, i+1)
	}
	for i := len(kept) - 1; i >= 0; i-- {
		if k.Age > 0 && now.Sub(time.Unix(0, kept[i].GetModifiedUnixNanos())) > k.Age {
			drop(i)
		}
	}
	for len(kept) > k.Runs || k.Bytes > 0 && bytes > k.Bytes && len(kept) > 0 {
		oldest := len(kept) - 1
		for i := oldest; i >= 0; i-- {
			if kept[i].GetCollected() {
				oldest = i
				break
			}
		}
		drop(oldest)
	}
	return gone
}

// prune removes journals beyond the bounds, so that the disk does not fill up. It returns what
// the user should know: which of them nobody had collected.
func (w *Worker) prune(active string) (warnings []string) {
	runs, err := w.journals.list()
	if err != nil {
		w.cfg.Log.Warn("the journals cannot be listed; none is removed", "error", err)
		return nil
	}
	runs = slices.DeleteFunc(runs, func(k *workerpb.KeptRun) bool { return k.GetRunId() == active })
	for _, k := range w.cfg.Keep.surplus(runs, time.Now()) {
		if err := w.journals.remove(k.GetRunId()); err != nil {
			w.cfg.Log.Warn("an old journal cannot be removed", "run", k.GetRunId(), "error", err)
			continue
		}
		if k.GetCollected() {
			w.cfg.Log.Info("old journal removed", "run", k.GetRunId())
			continue
		}
		w.cfg.Log.Warn("old journal removed that nobody had collected", "run", k.GetRunId())
		warnings = append(warnings, fmt.Sprintf("worker %s has removed its journal of run %s, which nobody had collected whole, to keep within --keep, --keep-for and --keep-size", w.cfg.Name, k.GetRunId()))
	}
	return warnings
}

// collectedFile lies in the folder of a run that was collected.
const collectedFile = "collected"

func (a archive) wasCollected(id string) bool {
	_, err := os.Lstat(filepath.Join(a.dir, id, collectedFile))
	return err == nil
}

func (a archive) markCollected(id string) error {
	f, err := os.OpenFile(filepath.Join(a.dir, id, collectedFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func (a archive) remove(id string) error { return os.RemoveAll(filepath.Join(a.dir, id)) }
