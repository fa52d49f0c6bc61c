// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"strconv"

	"github.com/kvbench/kvbench/analysis/plan"
)

// Measured is what runs tell a plan, and which of them tell it nothing, and why.
func Measured(runs []*Run) (told []plan.Measured, not []string) {
	for _, r := range runs {
		p := r.Report()
		why := rateless(p)
		if why == "" && len(p.Cluster.Stores) == 0 {
			why = "it is not known how many stores there were"
		}
		if why != "" {
			not = append(not, fmt.Sprintf("%s is left out: %s.", p.RunID, why))
			continue
		}
		replicas, _ := strconv.Atoi(p.Cluster.Details["replicas"]) // 0 if it is not there
		m := plan.Measured{Run: p.RunID, Load: p.Phase == "load", OpsPerS: p.OpsPerS, Stores: len(p.Cluster.Stores),
			Saturated: p.Limit.By == ByServer, Replicas: replicas, Records: float64(p.Plan.Records)}
		if !m.Load {
			m.Mix = mix(p.Spec)
		}
		if d := p.Spec["fieldlengthdistribution"]; d == "" || d == "constant" {
			m.Value = float64(numberOf(p.Spec["fieldcount"]) * numberOf(p.Spec["fieldlength"]))
		}
		told = append(told, m)
	}
	return told, not
}
