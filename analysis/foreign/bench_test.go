// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkSamples reads a client's samples as a reader does that holds and sorts them all, and as ours does.
func BenchmarkSamples(b *testing.B) {
	const rows = 1_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	var fleet []sample
	for _, client := range fleetOf(1, 100, rows/100, rng) {
		fleet = append(fleet, client...)
	}
	text := []byte(csvOf(fleet, rng))
	for _, reader := range []struct {
		name string
		p99  func() float64
	}{{"sorted", func() float64 { return sortedP99(b, text) }}, {"streamed", func() float64 {
		var s sampleFile
		s.read(open(text))
		values, _ := s.of([]byte("READ")).latency.Quantiles(99)
		return float64(values[0])
	}}} {
		b.Run(reader.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			want := sortedP99(b, text)
			for b.Loop() {
				if got := reader.p99(); got < want || got > 1.001*want+1 {
					b.Fatalf("p99 of reads %v µs, want %v", got, want)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// sortedP99 is the p99 of reads from all their latencies, sorted.
func sortedP99(b *testing.B, text []byte) float64 {
	latencies := make(map[string][]int64)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan() // the header
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ",")
		us, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		latencies[fields[0]] = append(latencies[fields[0]], us)
	}
	for _, all := range latencies {
		slices.Sort(all)
	}
	return float64(percentile(latencies["READ"], 99))
}
