// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"errors"
	"fmt"
	"strings"
)

const maxRate = 1e9

// ParseRate reads operations a second, above 0, as target does: 20000 or 20k.
func ParseRate(text string) (float64, error) {
	rate, err := parseReal(text, 0, maxRate)
	if err == nil && rate == 0 {
		err = errors.New("must be above 0")
	}
	return rate, err
}

// target is a rate, or a profile of rates over time: stages separated by commas,
// each RATE@TIME (a step) or FROM..TO@TIME (a ramp). The last may leave out @TIME
// and then holds to the end; otherwise its final rate does.
//
//	target=20000
//	target=1000@30s,1000..50000@5m,50000
//
// What [WithCourses] reads of a file is such a profile.
func target() property {
	return property{
		Definition: Definition{Name: "target", Default: "0",
			Kind: "number, a profile as 1000@30s,1000..50000@5m,50000, or a file of times and rates as day.csv@10m",
			Doc:  "operations a second over the whole fleet; 0: as fast as it goes"},
		parse: func(s *Spec, text string) error {
			if !strings.ContainsAny(text, "@,") && !strings.Contains(text, "..") {
				rate, err := parseReal(text, 0, maxRate)
				s.Target, s.Stages = rate, nil
				return err
			}
			stages, err := parseProfile(text)
			if err != nil {
				return err
			}
			s.Target, s.Stages = stages[0].From, stages
			return nil
		},
		format: func(s *Spec) string {
			if s.Stages == nil {
				return formatReal(s.Target)
			}
			return formatProfile(s.Stages)
		},
	}
}

func parseProfile(text string) ([]Stage, error) {
	var stages []Stage
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		rates, length, timed := strings.Cut(part, "@")
		var stage Stage
		var err error
		switch {
		case timed:
			if stage.Length, err = parseSeconds(length); err != nil {
				return nil, fmt.Errorf("time of stage %d (%s): %w", i+1, part, err)
			}
			if stage.Length == 0 {
				return nil, fmt.Errorf("stage %d (%s) takes no time", i+1, part)
			}
		case i < len(parts)-1:
			hint := ""
			if len(parts) == 2 && len(strings.TrimSpace(parts[1])) == 3 {
				hint = " (a number is written without thousands separators)"
			}
			return nil, fmt.Errorf("stage %d (%s) needs a time, as %s@30s%s", i+1, part, part, hint)
		}
		from, to, ramp := strings.Cut(rates, "..")
		if stage.From, err = parseReal(from, 0, maxRate); err != nil {
			return nil, fmt.Errorf("rate of stage %d (%s): %q %w", i+1, part, from, err)
		}
		stage.To = stage.From
		if ramp {
			if !timed {
				return nil, fmt.Errorf("ramp %s needs a time, as %s@60s", part, part)
			}
			if stage.To, err = parseReal(to, 0, maxRate); err != nil {
				return nil, fmt.Errorf("rate of stage %d (%s): %q %w", i+1, part, to, err)
			}
		}
		stages = append(stages, stage)
	}
	if stages[len(stages)-1].To == 0 {
		return nil, errors.New("a profile must end at a rate above 0")
	}
	return stages, nil
}

func formatProfile(stages []Stage) string {
	parts := make([]string, len(stages))
	for i, s := range stages {
		parts[i] = formatReal(s.From)
		if s.To != s.From {
			parts[i] += ".." + formatReal(s.To)
		}
		if s.Length > 0 {
			parts[i] += "@" + s.Length.String()
		}
	}
	return strings.Join(parts, ",")
}
