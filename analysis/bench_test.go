// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/analysis/internal/largerun"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// BenchmarkLoad reads a run of 15 workers, 10 minutes and all kinds of a paced load, 75 MB.
func BenchmarkLoad(b *testing.B) {
	const workers, seconds, perSecond = 15, 600, 3000
	dir, err := largerun.Run{ID: "long", Workers: workers, Seconds: seconds, PerSecond: perSecond}.Write(b.TempDir())
	if err != nil {
		b.Fatal(err)
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
