// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// BenchmarkLoad reads a run of 15 workers, 10 minutes and all kinds of a paced load, 75 MB.
func BenchmarkLoad(b *testing.B) {
	const workers, seconds, perSecond = 15, 600, 3000
	run := results.Run{RunID: "long", Phase: "run", State: results.Finished, Start: time.Unix(1e9, 0), WindowS: seconds, Paced: true,
		Target: workers * perSecond, Plan: results.Plan{Workers: workers, Threads: 50}}
	dir, err := results.CreateRun(b.TempDir(), run.RunID)
	if err != nil {
		b.Fatal(err)
	}
	for w := range workers {
		run.Fleet = append(run.Fleet, results.Member{Name: fmt.Sprintf("w%d", w), State: results.Finished})
	}
	if err := results.WriteRun(dir, &run); err != nil {
		b.Fatal(err)
	}
	first := filepath.Join(dir, "w0")
	j, err := results.CreateJournal(first, results.Worker{Name: "w0"})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	res := workload.Result{RPCs: 1}
	res.Count[workload.OK] = 1
	for s := range time.Duration(seconds) {
		c := measure.NewCollector(measure.Config{Paced: true, Window: seconds * time.Second}, 1)
		rec := c.Recorder(0)
		for i := range time.Duration(perSecond) {
			slot := i * time.Second / perSecond
			end := slot + time.Duration(300+random.ExpFloat64()*400)*time.Microsecond
			rec.Record(&measure.Sample{Kind: workload.Kind(int(i) % workload.Kinds), Result: &res, Slot: slot, Start: slot + time.Duration(random.IntN(200))*time.Microsecond, End: end, Seen: end})
		}
		rec.Finish(time.Second)
		c.Run(func(iv *measure.Interval) {
			iv.Start, iv.End = s*time.Second, (s+1)*time.Second
			err = j.Write(iv, perSecond, measure.HostSample{Cores: 2})
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(results.End{}); err != nil {
		b.Fatal(err)
	}
	for _, m := range run.Fleet[1:] {
		if err := os.CopyFS(filepath.Join(dir, m.Name), os.DirFS(first)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		r, err := Load(dir)
		if err != nil {
			b.Fatal(err)
		}
		if p := r.Report(); p.Operations != workers*seconds*perSecond || p.Verdict.Code != exitcode.Valid {
			b.Fatalf("%d operations: %+v", p.Operations, p.Verdict)
		}
	}
	b.ReportMetric(float64(size(b, dir))/1e6, "MB")
}

// size is that of all files in a directory, in bytes.
func size(b *testing.B, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		n += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
