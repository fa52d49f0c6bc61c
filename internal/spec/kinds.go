// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type duration = time.Duration

// integer is a count in [low, high].
func integer(name, def string, low, high int64, doc string, at func(*Spec) *int64) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "integer", Doc: doc},
		parse: func(s *Spec, text string) (err error) {
			*at(s), err = parseCount(text, low, high)
			return err
		},
		format: func(s *Spec) string { return strconv.FormatInt(*at(s), 10) },
	}
}

// number is an integer that fits an int.
func number(name, def string, low, high int, doc string, at func(*Spec) *int) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "integer", Doc: doc},
		parse: func(s *Spec, text string) error {
			n, err := parseCount(text, int64(low), int64(high))
			*at(s) = int(n)
			return err
		},
		format: func(s *Spec) string { return strconv.Itoa(*at(s)) },
	}
}

// size is a number of bytes. Of these, k could be 1000 or 1024.
func size(name, def string, low, high int, doc string, at func(*Spec) *int) property {
	p := number(name, def, low, high, doc, at)
	p.Kind = "bytes"
	p.parse = func(s *Spec, text string) error {
		if n := plain(text); n != text {
			return fmt.Errorf("could be in thousands or in units of 1024: write the bytes out, as %s", n)
		}
		n, err := parseInteger(text, int64(low), int64(high))
		*at(s) = int(n)
		return err
	}
	return p
}

// real is a finite decimal number in [low, high].
func real(name, def string, low, high float64, doc string, at func(*Spec) *float64) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "number", Doc: doc},
		parse: func(s *Spec, text string) (err error) {
			*at(s), err = parseReal(text, low, high)
			return err
		},
		format: func(s *Spec) string { return formatReal(*at(s)) },
	}
}

// weight is a real of any size from 0 on; only ratios of weights matter.
func weight(name, def, doc string, at func(*Spec) *float64) property {
	return real(name, def, 0, 1e9, doc, at)
}

func boolean(name, def, doc string, at func(*Spec) *bool) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "true or false", Choices: []string{"true", "false"}, Doc: doc},
		parse: func(s *Spec, text string) (err error) {
			*at(s), err = parseBoolean(text)
			return err
		},
		format: func(s *Spec) string { return strconv.FormatBool(*at(s)) },
	}
}

func text(name, def, doc string, at func(*Spec) *string) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "text", Doc: doc},
		parse: func(s *Spec, text string) error {
			*at(s) = text
			return nil
		},
		format: func(s *Spec) string { return *at(s) },
	}
}

// choice is one of some words, in any case.
func choice(name, def, doc string, at func(*Spec) *string, words ...string) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: strings.Join(words, ", "), Choices: words, Doc: doc},
		parse: func(s *Spec, text string) error {
			for _, word := range words {
				if strings.EqualFold(word, text) {
					*at(s) = word
					return nil
				}
			}
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		},
		format: func(s *Spec) string { return *at(s) },
	}
}

// seconds is a duration for which, as in YCSB, a bare number means seconds.
func seconds(name, def, doc string, at func(*Spec) *duration) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "seconds, or a duration as 1m30s", Doc: doc},
		parse: func(s *Spec, text string) (err error) {
			*at(s), err = parseSeconds(text)
			return err
		},
		format: func(s *Spec) string { return formatSeconds(*at(s)) },
	}
}

// span is a duration that needs its unit, because a bare number could mean any.
func span(name, def, doc string, at func(*Spec) *duration) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "duration as 10ms", Doc: doc},
		parse: func(s *Spec, text string) (err error) {
			*at(s), err = parseSpan(text)
			return err
		},
		format: func(s *Spec) string { return at(s).String() },
	}
}

func addresses(name, def, doc string, at func(*Spec) *[]string) property {
	return property{
		Definition: Definition{Name: name, Default: def, Kind: "host:port,host:port", Doc: doc},
		parse: func(s *Spec, text string) error {
			list, err := parseAddresses(text)
			*at(s) = list
			return err
		},
		format: func(s *Spec) string { return strings.Join(*at(s), ",") },
	}
}

func phase() property {
	return property{
		Definition: Definition{Name: "dotransactions", Default: "true", Kind: "true or false",
			Doc: "true: run; false: load. The command line sets it"},
		parse: func(s *Spec, text string) error {
			run, err := parseBoolean(text)
			s.Phase = Load
			if run {
				s.Phase = Run
			}
			return err
		},
		format: func(s *Spec) string { return strconv.FormatBool(s.Phase == Run) },
	}
}

func seed() property {
	return property{
		Definition: Definition{Name: "seed", Default: "1", Kind: "integer",
			Doc: "of everything random: the same seed gives the same operations"},
		parse: func(s *Spec, text string) error {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return errors.New("must be a whole number from 0 to 18446744073709551615")
			}
			s.Seed = n
			return nil
		},
		format: func(s *Spec) string { return strconv.FormatUint(s.Seed, 10) },
	}
}

// magnitudes are what a count or a rate may end in.
var magnitudes = map[byte]int{'k': 3, 'K': 3, 'm': 6, 'M': 6, 'g': 9, 'G': 9}

var mantissa = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// plain writes a number as 20k or 1.5m out; other texts stay as they are.
func plain(text string) string {
	last := len(text) - 1
	if last < 0 || magnitudes[text[last]] == 0 || !mantissa.MatchString(text[:last]) {
		return text
	}
	zeros := magnitudes[text[last]]
	whole, fraction, _ := strings.Cut(text[:last], ".")
	if len(fraction) > zeros {
		return whole + fraction[:zeros] + "." + fraction[zeros:]
	}
	return whole + fraction + strings.Repeat("0", zeros-len(fraction))
}

// parseCount reads a whole number, as 20000 or 20k.
func parseCount(text string, low, high int64) (int64, error) {
	return parseInteger(plain(text), low, high)
}

func parseInteger(text string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("must be from %d to %d", low, high)
	case err != nil:
		return 0, fmt.Errorf("is not a whole number%s", suggestNumber(text, true))
	case n < low || n > high:
		return 0, fmt.Errorf("must be from %d to %d", low, high)
	}
	return n, nil
}

// parseReal reads a number, as 0.5, 20000 or 20k.
func parseReal(text string, low, high float64) (float64, error) {
	f, err := strconv.ParseFloat(plain(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(f) || isHexOrGrouped(text) {
		return 0, fmt.Errorf("is not a number%s", suggestNumber(text, false))
	}
	if !(f >= low && f <= high) {
		return 0, fmt.Errorf("must be from %s to %s", formatReal(low), formatReal(high))
	}
	return f, nil
}

// isHexOrGrouped reports spellings that Go's parser takes and a reader may not.
func isHexOrGrouped(text string) bool { return strings.ContainsAny(text, "xXpP_") }

// grouped is a number with thousands apart; one that begins with 0 has a decimal comma.
var grouped = regexp.MustCompile(`^[1-9][0-9]{0,2}(,[0-9]{3})+$`)

// suggestNumber turns 10_000, 10,000, 0,5, 10b and, for whole numbers, 1e6 into advice.
func suggestNumber(text string, whole bool) string {
	number := strings.NewReplacer("_", "", " ", "").Replace(text)
	if grouped.MatchString(number) {
		number = strings.ReplaceAll(number, ",", "")
	} else if strings.Count(number, ",") == 1 {
		number = strings.Replace(number, ",", ".", 1)
	}
	if billions, ok := strings.CutSuffix(strings.ToLower(number), "b"); ok {
		number = billions + "g"
	}
	f, err := strconv.ParseFloat(plain(number), 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) >= 1e18 || whole && f != math.Trunc(f) {
		return ""
	}
	if strings.ContainsAny(number, "xXpP") {
		return "; write it in decimal"
	}
	return "; write " + formatReal(f)
}

func parseBoolean(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// maxDuration bounds durations so that sums of them cannot overflow.
const maxDuration = 10 * 365 * 24 * time.Hour

func parseSeconds(text string) (time.Duration, error) {
	if sec, err := strconv.ParseFloat(text, 64); err == nil && !isHexOrGrouped(text) {
		if !(sec >= 0 && sec <= maxDuration.Seconds()) {
			return 0, fmt.Errorf("must be from 0 to %s seconds", formatSeconds(maxDuration))
		}
		return time.Duration(math.Round(sec * 1e9)), nil
	}
	d, ok := parseDuration(text)
	if !ok {
		return 0, errors.New("must be seconds, or a duration as 90s, 1m30s, 2h or 1d")
	}
	return boundDuration(d)
}

func parseSpan(text string) (time.Duration, error) {
	d, ok := parseDuration(text)
	if !ok {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return 0, fmt.Errorf("needs a unit: write %sms or %ss", text, text)
		}
		return 0, errors.New("must be a duration as 500us, 10ms or 1s")
	}
	return boundDuration(d)
}

// parseDuration reads a duration as Go does, and days before it: 1d, 1d12h.
func parseDuration(text string) (time.Duration, bool) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !mantissa.MatchString(days) {
		return 0, false
	}
	if n > 2*maxDuration.Hours()/24 {
		return 2 * maxDuration, true // out of bounds, whatever follows
	}
	var more time.Duration
	if rest != "" {
		if more, err = time.ParseDuration(rest); err != nil || more < 0 || more > maxDuration {
			return 0, false
		}
	}
	return time.Duration(math.Round(n*24*3600))*time.Second + more, true
}

func boundDuration(d time.Duration) (time.Duration, error) {
	if d < 0 || d > maxDuration {
		return 0, fmt.Errorf("must be from 0 to %s", maxDuration)
	}
	return d, nil
}

func parseAddresses(text string) ([]string, error) {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		part = strings.TrimPrefix(strings.TrimPrefix(part, "http://"), "https://")
		host, port, err := net.SplitHostPort(part)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("%q is not host:port; write addresses as pd-0:2379,pd-1:2379", part)
		}
		if !slices.Contains(list, part) {
			list = append(list, part)
		}
	}
	return list, nil
}

func formatReal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// formatSeconds writes a duration as YCSB does where that is exact.
func formatSeconds(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10)
	}
	return d.String()
}
