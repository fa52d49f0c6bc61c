// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// Studies are the formats that a study has.
var Studies = []Format{Text, JSON, CSV, HTML}

// Study writes a study in a format; style is for text alone.
func Study(w io.Writer, s *analysis.Study, f Format, style Style) error {
	switch f {
	case JSON:
		return writeJSON(w, s)
	case CSV:
		return writeStudyCSV(w, s)
	case HTML:
		return writeStudyHTML(w, s)
	}
	return writeStudy(w, s, style)
}

// writeStudy writes a study for people.
func writeStudy(w io.Writer, s *analysis.Study, style Style) error {
	t := &text{style: style}
	t.remark("", t.paint(bold, "study "+printable(s.ID))+" · "+studyState(s))
	if s.Ended != "" {
		t.prose("ended    ", yellow, printable(s.Ended))
	}
	t.line("")
	rates, latencies, left := studyRows(s)
	t.table(rates, left, len(rates[0])-1)
	t.line("")
	t.table(latencies, left, -1)
	t.line("")
	if costs := costRows(s); costs != nil {
		t.table(costs, left, len(costs[0])-1)
		t.line("")
	}
	if knees := kneeTexts(s); knees != nil {
		for _, k := range knees {
			t.prose("knee     ", bold, k)
		}
		t.line("")
	}
	if table := versusRows(s); table != nil {
		t.table(table, left, -1)
		t.line("")
		for _, v := range s.Versus {
			t.prose("", "", versusText(s, v))
		}
		t.line("")
	}
	t.prose("", "", studyNote(s))
	for _, text := range skippedTexts(s) {
		t.remark("", "skipped: "+text)
	}
	for _, c := range s.Cells {
		for _, r := range c.Failed {
			t.remark(red, fmt.Sprintf("failed: %s, repeat %d: %s (%s)", printable(s.Title(c)), r.Repeat, printable(r.Text), printable(r.RunID)))
		}
	}
	_, err := io.WriteString(w, t.printed())
	return err
}

// studyState says how far a study is.
func studyState(s *analysis.Study) string {
	state := fmt.Sprintf("%d %s", s.Steps, units.Plural(int64(s.Steps), "run", "runs"))
	if s.Left > 0 {
		state += fmt.Sprintf(", of which %d %s not done", s.Left, units.Plural(int64(s.Left), "is", "are"))
	}
	if s.Skipped > 0 {
		state += fmt.Sprintf(", %d skipped above values that broke an objective", s.Skipped)
	}
	return state
}

// skippedTexts say of which cells runs were skipped, and why.
func skippedTexts(s *analysis.Study) (all []string) {
	for _, c := range s.Cells {
		for _, r := range c.Skipped {
			all = append(all, printable(fmt.Sprintf("%s, repeat %d: %s (%s)", s.Title(c), r.Repeat, r.Text, r.RunID)))
		}
	}
	return all
}

// studyNote says what the numbers are.
func studyNote(s *analysis.Study) string {
	const service, response = "service time, from when an operation was sent", "response time, from when an operation was due"
	paced, unpaced := false, false
	for _, c := range s.Cells {
		paced, unpaced = paced || c.ResponseUS != nil, unpaced || c.ResponseUS == nil && c.ServiceUS != nil
	}
	time := service
	switch {
	case paced && unpaced:
		time = response + ", and without a target " + service
	case paced:
		time = response
	}
	cost := ""
	if costRows(s) != nil {
		cost = " What a million operations cost is the median over the repeats, too, and no more than that where the cluster may do more for the same."
	}
	return "Rate, in flight and CPU are medians over the repeats, with the least and the most of them. Latencies are " + time + ": percentiles of all repeats' " +
		"histograms together, with the least and the most of one run. CPU is that of the busiest worker, of its cores." + cost
}

// variants tells whether cells have names.
func variants(s *analysis.Study) bool { return len(s.Cells) > 0 && s.Cells[0].Variant != "" }

// studyRows is a study as two tables, their heads first, of which the first so many columns are names.
func studyRows(s *analysis.Study) (rates, latencies [][]string, left int) {
	head := append([]string{}, s.Varied...)
	if variants(s) {
		head = append(head, "variant")
	}
	left = len(head)
	rates = [][]string{append(head[:left:left], "runs", "rate", "least", "most", "in flight", "CPU", "limit")}
	latencies = [][]string{append(head[:left:left], "p50", "", "p99", "", "p99.9", "")}
	for _, c := range s.Cells {
		names := append([]string{}, c.Values...)
		if variants(s) {
			names = append(names, c.Variant)
		}
		for i := range names {
			names[i] = printable(names[i])
		}
		runs := strconv.Itoa(len(c.Runs))
		if len(c.Failed) > 0 {
			runs += fmt.Sprintf(" + %d failed", len(c.Failed))
		}
		if len(c.Skipped) > 0 {
			runs += fmt.Sprintf(" + %d skipped", len(c.Skipped))
		}
		rate, inFlight, cpu := [3]string{none, none, none}, none, none
		if v := c.OpsPerS; v != nil {
			rate = [3]string{units.Rate(v.Median), units.Rate(v.Min), units.Rate(v.Max)}
			inFlight, cpu = units.Number(c.InFlight.Median), units.Percent(c.ClientCPU.Median)
		}
		rates = append(rates, append(names[:left:left], runs, rate[0], rate[1], rate[2], inFlight, cpu, cellLimit(c)))
		row := names[:left:left]
		for _, p := range c.Latency().Pooled() {
			row = append(row, pooled(p), between(p))
		}
		latencies = append(latencies, row)
	}
	return rates, latencies, left
}

// costRows say what cells cost, with their head first; nil if no prices are known.
func costRows(s *analysis.Study) (rows [][]string) {
	head := append([]string{}, s.Varied...)
	if variants(s) {
		head = append(head, "variant")
	}
	known := false
	rows = [][]string{append(head, "cluster a month", "cluster a million ops", "", "clients a month", "clients a million ops", "because")}
	for _, c := range s.Cells {
		row := append([]string{}, c.Values...)
		if variants(s) {
			row = append(row, c.Variant)
		}
		cost := c.Cost
		if cost == nil {
			rows = append(rows, append(row, none, none, "", none, none, ""))
			continue
		}
		known = true
		money := func(v float64) string { return cost.Currency + " " + units.Number(v) }
		million := func(v *analysis.Spread) (median, from string) {
			if v == nil {
				return "unknown", ""
			}
			if low, high := units.Number(v.Min), units.Number(v.Max); low != high {
				from = low + "–" + high
			}
			median = money(v.Median)
			if cost.AtMost {
				median = "≤ " + median
			}
			return median, from
		}
		cluster, between := million(cost.ClusterPerMillion)
		clients, monthly := none, none
		if cost.ClientsPerMonth > 0 {
			clients, _ = million(cost.ClientsPerMillion)
			monthly = money(cost.ClientsPerMonth)
		}
		rows = append(rows, append(row, money(cost.ClusterPerMonth), cluster, between, monthly, clients, cost.Why))
	}
	if !known {
		return nil
	}
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
	}
	return rows
}

// pooled shows a percentile of several runs together.
func pooled(p analysis.Pooled) string {
	switch {
	case p.TooFew:
		return none
	case p.AtLeast:
		return "> " + units.Micros(p.Value)
	}
	return units.Micros(p.Value)
}

// between shows in what the percentiles of the runs lie; nothing if that is one number.
func between(p analysis.Pooled) string {
	low, high := units.Micros(p.Min), units.Micros(p.Max)
	if p.TooFew || low == high {
		return ""
	}
	return low + "–" + high
}

// kneeTexts are the knees of a study, each with the curve that has it.
func kneeTexts(s *analysis.Study) (all []string) {
	if s.Sweep == nil {
		return nil
	}
	for i := range s.Sweep.Curves {
		if v := &s.Sweep.Curves[i]; v.Knee != nil {
			all = append(all, kneeText(v))
		}
	}
	return all
}

// kneeText is the knee of a curve in a sentence.
func kneeText(v *analysis.SweepCurve) string {
	if v.Title == "" {
		return printable(v.Knee.Text)
	}
	return printable(v.Title + ": " + v.Knee.Text)
}

// versusRows are the relative changes of the judged metrics from one variant to another; nil if there are no variants.
func versusRows(s *analysis.Study) (rows [][]string) {
	if len(s.Versus) == 0 {
		return nil
	}
	head := append(append([]string{}, s.Varied...), "relative")
	for _, d := range s.Versus[0].Comparison.Deltas {
		if d.Judged != analysis.NotJudged {
			head = append(head, analysis.Title(d.Metric))
		}
	}
	priced := slices.ContainsFunc(s.Versus, func(v *analysis.Versus) bool { return v.Comparison.Value != nil })
	// Of cells with a target and without, which have no time in common.
	for _, v := range s.Versus[1:] {
		for i, d := range v.Comparison.Deltas {
			if at := len(s.Varied) + 1 + i; d.Judged != analysis.NotJudged && at < len(head) && head[at] != analysis.Title(d.Metric) {
				head[at] = strings.TrimPrefix(strings.TrimPrefix(head[at], "service "), "response ")
			}
		}
	}
	judged := len(head)
	if priced {
		head = append(head, "operations for the money")
	}
	rows = [][]string{head}
	for _, v := range s.Versus {
		var row []string
		for _, value := range append(append([]string{}, v.Values...), fmt.Sprintf("(%s − %s) / %s", v.B, v.A, v.A)) {
			row = append(row, printable(value))
		}
		for _, d := range v.Comparison.Deltas {
			switch d.Judged {
			case analysis.NotJudged:
				continue
			case analysis.Unknown:
				row = append(row, "unknown")
			case analysis.Noise:
				row = append(row, signedPercent(d.Change)+" (noise "+d.NoiseText()+")")
			default:
				row = append(row, signedPercent(d.Change)+" "+d.NoiseText())
			}
		}
		for len(row) < judged {
			row = append(row, none)
		}
		row = row[:judged]
		if priced {
			row = append(row, valueChange(v.Comparison.Value))
		}
		rows = append(rows, row)
	}
	return rows
}

// valueChange is how price for performance changes.
func valueChange(v *analysis.Value) string {
	switch {
	case v == nil:
		return none
	case v.Judged == analysis.Unknown:
		return "unknown"
	case v.Judged == analysis.Noise:
		return signedPercent(v.Change) + " (noise)"
	}
	return signedPercent(v.Change)
}

// versusText is the sentence of a comparison, with where it is of.
func versusText(s *analysis.Study, v *analysis.Versus) string {
	var at []string
	for i, key := range s.Varied {
		at = append(at, key+"="+v.Values[i])
	}
	text := v.B + " against " + v.A
	if len(at) > 0 {
		text += ", " + strings.Join(at, " ")
	}
	return printable(text + ": " + v.Text)
}

// cellLimit says what the runs of a cell were limited by.
func cellLimit(c *analysis.Cell) string {
	count := make(map[string]int)
	var order []string
	for _, r := range c.Runs {
		if count[r.LimitBy]++; count[r.LimitBy] == 1 {
			order = append(order, r.LimitBy)
		}
	}
	if len(order) == 1 {
		return order[0]
	}
	for i, by := range order {
		order[i] = fmt.Sprintf("%s (%d)", by, count[by])
	}
	return strings.Join(order, ", ")
}

// writeStudyCSV writes a line for each cell: numbers alone, in the units that the head names.
func writeStudyCSV(w io.Writer, s *analysis.Study) error {
	out := csv.NewWriter(w)
	head := append([]string{}, s.Varied...)
	head = append(head, "variant", "runs", "failed", "skipped", "client_limit")
	for _, name := range []string{"ops_per_s", "target_ops", "in_flight", "client_cpu_share"} {
		head = append(head, name, name+"_min", name+"_max")
	}
	for _, time := range []string{"service_us_", "response_us_"} {
		for _, name := range []string{"p50", "p99", "p99_9"} {
			head = append(head, time+name, time+name+"_min", time+name+"_max")
		}
	}
	head = append(head, "currency", "cluster_per_month", "clients_per_month")
	for _, name := range []string{"cluster_per_million_ops", "clients_per_million_ops"} {
		head = append(head, name, name+"_min", name+"_max")
	}
	head = append(head, "cost_at_most", "cost_why")
	if err := out.Write(head); err != nil {
		return err
	}
	for _, c := range s.Cells {
		row := append([]string{}, c.Values...)
		row = append(row, c.Variant, strconv.Itoa(len(c.Runs)), strconv.Itoa(len(c.Failed)), strconv.Itoa(len(c.Skipped)), strconv.Itoa(c.ClientLimit))
		for _, v := range []*analysis.Spread{c.OpsPerS, c.TargetOps, c.InFlight, c.ClientCPU} {
			row = append(row, spreadFields(v)...)
		}
		for _, l := range []*analysis.CellLatency{c.ServiceUS, c.ResponseUS} {
			for _, p := range l.Pooled() {
				row = append(row, spreadFields(p.Spread())...)
			}
		}
		row = append(row, costFields(c.Cost)...)
		for i := range row {
			row[i] = printable(row[i])
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// costFields are the columns of a cost; empty where there is none.
func costFields(c *analysis.CellCost) []string {
	if c == nil {
		return make([]string, 11)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	fields := []string{c.Currency, number(c.ClusterPerMonth), number(c.ClientsPerMonth)}
	fields = append(append(fields, spreadFields(c.ClusterPerMillion)...), spreadFields(c.ClientsPerMillion)...)
	return append(fields, strconv.FormatBool(c.AtMost), c.Why)
}

// spreadFields are the numbers of a spread; empty where there are none.
func spreadFields(v *analysis.Spread) []string {
	if v == nil {
		return []string{"", "", ""}
	}
	var fields []string
	for _, x := range []float64{v.Median, v.Min, v.Max} {
		fields = append(fields, strconv.FormatFloat(x, 'f', -1, 64))
	}
	return fields
}
