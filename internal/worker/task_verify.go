// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// verifyTask reads a table and checks it.
type verifyTask struct {
	*engine
	slices [][]byte          // of the key space
	sweeps []*workload.Sweep // by lane
}

func (k *verifyTask) before(t *table, found *workerpb.PrepareResponse) error {
	if _, err := t.fits(found); err != nil {
		return err
	}
	var err error
	k.slices, err = workload.Slices(k.spec)
	return err
}

func (k *verifyTask) source(p workload.Place) (lane.Source, error) {
	sweep, err := workload.NewSweep(k.spec, p, k.slices)
	k.sweeps = append(k.sweeps, sweep)
	return sweep, err
}

func (k *verifyTask) beside(ended <-chan struct{}) { <-ended }

// after adds up what all lanes have found.
func (k *verifyTask) after(_ *run, end *results.End) error {
	end.Findings = &workload.Findings{}
	for _, s := range k.sweeps {
		end.Findings.Add(s.Findings())
	}
	return nil
}
