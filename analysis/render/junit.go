// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
)

// The elements of JUnit's XML, as CI systems read it: a suite per run, of which the verdict and each objective are tests.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Time       string          `xml:"time,attr"` // in seconds
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Output     string          `xml:"system-out"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"` // it is unknown
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
	}
)

// writeJUnit writes verdicts and objectives as tests.
func writeJUnit(w io.Writer, d *analysis.Document) error {
	all := junitSuites{Name: "kvbench"}
	for _, r := range d.Runs {
		all.Suites = append(all.Suites, junitOf(r))
	}
	for _, r := range d.Foreign {
		all.Suites = append(all.Suites, junitOfForeign(r))
	}
	for _, s := range all.Suites {
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func junitOf(r *analysis.Report) junitSuite {
	took := fmt.Sprintf("%.3f", r.WindowS)
	s := junitSuite{Name: "kvbench " + printable(r.RunID), Time: took}
	if !r.Start.IsZero() {
		s.Timestamp = r.Start.UTC().Format(time.RFC3339)
	}
	for _, f := range facts(r) {
		s.Properties = append(s.Properties, junitProperty{f.name, f.text})
	}
	add := func(name string, failure, problem *junitProblem) {
		s.Tests++
		if failure != nil {
			s.Failures++
		}
		if problem != nil {
			s.Errors++
		}
		s.Cases = append(s.Cases, junitCase{Class: "kvbench." + printable(r.Phase), Name: name, Time: took, Failure: failure, Error: problem})
	}
	var verdict *junitProblem
	if r.Verdict.Code != exitcode.Valid {
		verdict = &junitProblem{printable(r.Verdict.Text), fmt.Sprintf("exit code %d", r.Verdict.Code)}
	}
	add("verdict", verdict, nil)
	for _, o := range r.Objectives {
		problem := &junitProblem{printable(o.Found), "objective"}
		switch {
		case o.Kept == nil:
			add(printable(o.Text), nil, problem)
		case *o.Kept:
			add(printable(o.Text), nil, nil)
		default:
			add(printable(o.Text), problem, nil)
		}
	}
	t := &text{}
	t.line("%s", answered(r, units.Rate(r.OpsPerS)))
	t.latencies(r)
	s.Output = t.printed()
	return s
}
