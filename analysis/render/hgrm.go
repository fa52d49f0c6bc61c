// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

const (
	ticksPerHalfDistance = 5    // as HdrHistogram's own tools write
	usPerMS              = 1000 // they have milliseconds
)

// Spectrum writes a percentile spectrum (.hgrm), in milliseconds, as HdrHistogram's tools write and plot it.
func Spectrum(w io.Writer, s *analysis.Spectrum) error {
	if _, err := fmt.Fprintf(w, "#[%s %s time of run %s, in milliseconds]\n", s.Kind, s.Time, s.Run); err != nil {
		return err
	}
	if reach := s.Reach(); reach > 0 {
		if _, err := fmt.Fprintf(w, "#[Values from %s on are at least that: the histograms end there]\n", units.Range(reach)); err != nil {
			return err
		}
	}
	_, err := s.Histogram.PercentilesPrint(w, ticksPerHalfDistance, usPerMS)
	return err
}

// Spectra writes the spectra of runs: a file for each into a folder, or the first one of the only run if there is none.
func Spectra(w io.Writer, folder string, runs ...*analysis.Run) error {
	if folder == "" {
		if len(runs) != 1 {
			return fmt.Errorf("%d runs, and a spectrum is of one: say with -o which folder gets a file for each", len(runs))
		}
		all := runs[0].Spectra()
		if len(all) == 0 {
			return fmt.Errorf("run %s has no latencies", runs[0].ID())
		}
		return Spectrum(w, &all[0])
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, r := range runs {
		for _, s := range r.Spectra() {
			f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%s-%s-%s.hgrm", s.Run, s.Kind, s.Time)))
			if err != nil {
				return err
			}
			if err := errors.Join(Spectrum(f, &s), f.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}
