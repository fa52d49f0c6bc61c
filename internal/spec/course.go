// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// Bounds of a file of rates.
const (
	maxCourse     = 1 << 20 // bytes
	maxMoments    = 2000    // a day, one a minute, with room
	courseEnding  = ".csv"
	millisFrom    = 1e11 // from here on a number of time are milliseconds: as seconds it were the year 5138
	courseHint    = "want two columns, time and operations a second, as a monitoring system exports one series"
	momentsFormat = "want 2026-01-02T15:04:05Z, 2026-01-02 15:04:05, 15:04, or seconds or milliseconds as a number"
)

// WithCourses returns the sources with the content of files of rates in the place of their names: a target of FILE.csv, or of
// FILE.csv@TIME, which takes that long. So a Spec, and all who are sent it, have the rates themselves.
func WithCourses(sources ...Source) ([]Source, error) {
	var errs []error
	read := make([]Source, len(sources))
	for i, source := range sources {
		read[i] = source
		read[i].Pairs = nil
		for _, pair := range source.Pairs {
			if file, within, ok := courseFile(pair.Value); ok && strings.TrimSpace(pair.Key) == "target" {
				profile, err := readCourse(file, within)
				if err != nil {
					errs = append(errs, &Error{pair.Where, pair.Key, pair.Value, err.Error()})
				}
				pair.Value = profile
			}
			read[i].Pairs = append(read[i].Pairs, pair)
		}
	}
	return read, errors.Join(errs...)
}

// courseFile parts a target that names a file of rates into its path and the time that it takes; "" if it takes its own.
func courseFile(text string) (file, within string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.HasSuffix(text, courseEnding) {
		return text, "", true
	}
	if i := strings.LastIndex(text, courseEnding+"@"); i >= 0 {
		i += len(courseEnding)
		return text[:i], text[i+1:], true
	}
	return "", "", false
}

func readCourse(file, within string) (string, error) {
	var length time.Duration
	if within != "" {
		var err error
		if length, err = parseSeconds(within); err != nil {
			return "", fmt.Errorf("time of %s: %w", file, err)
		}
		if length == 0 {
			return "", fmt.Errorf("%s takes no time: write %s@10m", file, file)
		}
	}
	text, err := plainfile.Read(file, maxCourse)
	if err != nil {
		return "", err
	}
	stages, err := parseCourse(string(text), length)
	if err != nil {
		return "", fmt.Errorf("%s:%w", file, err)
	}
	return formatProfile(stages), nil
}

// moment is a line of a file of rates.
type moment struct {
	at   float64 // seconds; since when does not matter
	rate float64 // operations a second
	line int
}

// parseCourse reads rates over time, of which there is a line for each moment, in CSV with or without a head, and joins them with ramps.
// within is how long all takes; 0: as long as it does. A line without a rate is left out. An error begins with the line of what is wrong.
func parseCourse(text string, within time.Duration) ([]Stage, error) {
	moments, err := parseMoments(text)
	if err != nil {
		return nil, err
	}
	first, last := moments[0], moments[len(moments)-1]
	if last.rate == 0 {
		return nil, fmt.Errorf("%d: the last rate is 0: it goes on after the end, and must be above 0", last.line)
	}
	scale := 1.0
	if within > 0 {
		scale = within.Seconds() / (last.at - first.at)
	}
	if seconds := (last.at - first.at) * scale; seconds > maxDuration.Seconds() {
		return nil, fmt.Errorf("%d: lies %.0f s behind the first line: at most %.0f", last.line, seconds, maxDuration.Seconds())
	}
	// Of moments, not of their distances, so that nothing adds up; whole milliseconds are shorter to read.
	at := func(m moment) time.Duration {
		return time.Duration(math.Round((m.at-first.at)*scale*1000)) * time.Millisecond
	}
	var stages []Stage
	for i, m := range moments[1:] {
		s := Stage{From: moments[i].rate, To: m.rate, Length: at(m) - at(moments[i])}
		if s.Length <= 0 {
			return nil, fmt.Errorf("%d: lies less than a millisecond behind the line before: take more time, as with @10m, or fewer lines", m.line)
		}
		if n := len(stages); n > 0 && s.From == s.To && stages[n-1].From == s.From && stages[n-1].To == s.From {
			stages[n-1].Length += s.Length
			continue
		}
		stages = append(stages, s)
	}
	return stages, nil
}

// parseMoments returns two moments at least, in their order.
func parseMoments(text string) ([]moment, error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	var moments []moment
	for row := 0; ; row++ {
		fields, err := r.Read()
		var broken *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && len(moments) < 2:
			return nil, errors.New("1: fewer than two lines with a rate: " + courseHint)
		case errors.Is(err, io.EOF):
			return moments, nil
		case errors.As(err, &broken):
			return nil, fmt.Errorf("%d: %w", broken.Line, broken.Err)
		case err != nil:
			return nil, fmt.Errorf("1: %w", err)
		}
		line, _ := r.FieldPos(0)
		if len(fields) != 2 {
			return nil, fmt.Errorf("%d: %d columns: %s", line, len(fields), courseHint)
		}
		at, timeErr := parseMoment(strings.TrimSpace(fields[0]))
		rate, rateErr := parseCourseRate(fields[1])
		switch {
		case row == 0 && timeErr != nil:
			continue // a head
		case timeErr != nil:
			return nil, fmt.Errorf("%d: time %q: %s", line, fields[0], momentsFormat)
		case rateErr != nil:
			return nil, fmt.Errorf("%d: rate %q %w", line, fields[1], rateErr)
		case math.IsNaN(rate):
			continue // nothing was known then
		case len(moments) > 0 && at <= moments[len(moments)-1].at:
			return nil, fmt.Errorf("%d: time %q does not lie behind that of line %d", line, fields[0], moments[len(moments)-1].line)
		case len(moments) == maxMoments:
			return nil, fmt.Errorf("%d: more than %d lines: export it with longer steps", line, maxMoments)
		}
		moments = append(moments, moment{at, rate, line})
	}
}

// momentLayouts are those of times that are no numbers.
var momentLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "15:04:05", "15:04"}

// parseMoment reads when something was, in seconds.
func parseMoment(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 1e15 {
		if v >= millisFrom {
			v /= 1000
		}
		return v, nil
	}
	for _, layout := range momentLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
		}
	}
	return 0, errors.New("is no time")
}

// parseCourseRate reads a rate; NaN where a monitoring system has none.
func parseCourseRate(text string) (float64, error) {
	switch text = strings.TrimSpace(text); strings.ToLower(text) {
	case "", "nan", "null", "undefined":
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= maxRate) {
		return 0, fmt.Errorf("is none: want operations a second as a plain number from 0 to %.0f, without a unit", maxRate)
	}
	return math.Round(v*1000) / 1000, nil
}
