// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/analysis/internal/largerun"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// BenchmarkLoad reads runs of all kinds of a paced load: 15 workers for 10 minutes, and 100 for an hour, 4.5 GB in files that all of them share.
func BenchmarkLoad(b *testing.B) {
	for _, run := range []largerun.Run{{Workers: 15, Seconds: 600}, {Workers: 100, Seconds: 3600}} {
		run.ID, run.PerSecond = "long", 3000
		b.Run(fmt.Sprintf("workers=%d/seconds=%d", run.Workers, run.Seconds), func(b *testing.B) {
			dir, err := run.Write(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r, err := Load(dir)
				if err != nil {
					b.Fatal(err)
				}
				if p := r.Report(); p.Operations != int64(run.Workers*run.Seconds*run.PerSecond) || p.Verdict.Code != exitcode.Valid {
					b.Fatalf("%d operations: %+v", p.Operations, p.Verdict)
				}
			}
			b.ReportMetric(float64(size(b, dir))/1e6, "MB")
		})
	}
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
