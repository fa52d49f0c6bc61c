// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/objective"
)

// Held tells whether the database held the run's target within the run's objectives, of which the rate's share of the target and the share of
// errors must be two: Kept if each is kept, Broken if one is not and that was not for the client, Unknown otherwise. Then client says that
// it is for the client, or for what else is on its machine. why is empty if it is kept.
func (p *Report) Held() (state objective.State, client bool, why string) {
	var broken []string
	for _, o := range p.Objectives {
		if o.Kept != nil && !*o.Kept {
			broken = append(broken, strings.TrimPrefix(o.Found, missed))
		}
	}
	strain, _ := strained(p)
	switch by := p.Limit.By; {
	case by == ByClient || by == ByOthers:
		return objective.Unknown, true, p.Limit.Why
	case len(broken) > 0 && strain != "":
		return objective.Unknown, true, strain + ": whether the database or that has broken an objective cannot be told"
	case len(broken) > 0 && by == ByUnknown:
		return objective.Unknown, false, p.Limit.Why
	case len(broken) > 0:
		return objective.Broken, false, strings.Join(broken, "; ")
	case p.Verdict.Code != exitcode.Valid:
		return objective.Unknown, false, p.Verdict.Text
	}
	return objective.Kept, false, ""
}

// Advice says what to do about a run that shows nothing of the database; "" if nobody knows.
func (p *Report) Advice() string {
	unknown := func(o ObjectiveRow) bool { return o.Kept == nil }
	switch {
	case len(p.WorkersLost) > 0 || len(p.Workers) < p.WorkersExpected:
		return "see why workers were lost (kvbench status), and search again"
	case crowded(p.Workers, p.WindowS) != "":
		return "the workers' machines are crowded: run them on machines that nothing else needs, give their containers more CPU, or use more workers, so that each has less to do; --driver stream costs them less"
	case slices.ContainsFunc(p.Objectives, unknown):
		return "too little was seen to judge every objective: give each run more time (--cell), begin higher (--start), or choose an objective that fewer operations can show, as p99 in the place of p99.9"
	}
	return ""
}
