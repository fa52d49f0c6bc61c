// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/units"
)

// share is a flag's value within 0 and 1, written as a number or in percent; nil unless set.
type share struct{ value **float64 }

func (s *share) String() string {
	if s.value == nil || *s.value == nil {
		return ""
	}
	return units.Percent(**s.value)
}

func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("want a share of 0 to 1, as in 0.01, or of 0%% to 100%%")
	}
	*s.value = &v
	return nil
}

func (s *share) Type() string { return "share" }
