// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// LengthHistogram is a distribution of field lengths: bucket i stands for the
// length (i+1)·BlockSize and has the weight Counts[i].
type LengthHistogram struct {
	BlockSize int64
	Counts    []int64
}

// Max returns the largest length with a weight.
func (h LengthHistogram) Max() int64 {
	for i := len(h.Counts) - 1; i >= 0; i-- {
		if h.Counts[i] > 0 {
			return int64(i+1) * h.BlockSize
		}
	}
	return 0
}

const maxBuckets = 1 << 16

// lengthHistogram reads a histogram file where the properties are read, and
// carries its content as BLOCKSIZE:COUNT,COUNT,… from there on, so that workers need no file.
func lengthHistogram() property {
	return property{
		Definition: Definition{Name: "fieldlengthhistogram", Default: "",
			Kind: "file, or BLOCKSIZE:COUNT,COUNT,…", Doc: "for fieldlengthdistribution=histogram; YCSB's file format"},
		parse: func(s *Spec, text string) (err error) {
			if text == "" {
				s.Row.LengthHistogram = LengthHistogram{}
				return nil
			}
			s.Row.LengthHistogram, err = parseHistogram(text)
			return err
		},
		format: func(s *Spec) string {
			h := s.Row.LengthHistogram
			if h.Counts == nil {
				return ""
			}
			counts := make([]string, len(h.Counts))
			for i, c := range h.Counts {
				counts[i] = strconv.FormatInt(c, 10)
			}
			return fmt.Sprintf("%d:%s", h.BlockSize, strings.Join(counts, ","))
		},
	}
}

func parseHistogram(text string) (LengthHistogram, error) {
	size, counts, inline := strings.Cut(text, ":")
	if _, err := strconv.ParseInt(size, 10, 64); !inline || err != nil {
		return readHistogram(text)
	}
	h := LengthHistogram{}
	var err error
	if h.BlockSize, err = parseInteger(size, 1, maxBytes); err != nil {
		return h, fmt.Errorf("block size %s %w", size, err)
	}
	for i, c := range strings.Split(counts, ",") {
		n, err := parseInteger(c, 0, 1<<40)
		if err != nil {
			return h, fmt.Errorf("count of bucket %d %w", i, err)
		}
		h.Counts = append(h.Counts, n)
	}
	return h, h.check()
}

// readHistogram reads YCSB's format: "BlockSize<TAB>N", then "bucket<TAB>count" per line.
func readHistogram(path string) (LengthHistogram, error) {
	var h LengthHistogram
	data, err := plainfile.Read(path, plainfile.MaxSmall)
	if err != nil {
		return h, fmt.Errorf("cannot read the histogram: %w", err)
	}
	return parseHistogramFile(string(data))
}

func parseHistogramFile(data string) (LengthHistogram, error) {
	var h LengthHistogram
	for i, line := range strings.Split(strings.TrimSpace(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if i == 0 {
			if len(fields) != 2 || fields[0] != "BlockSize" {
				return h, errors.New("line 1 of the histogram must be BlockSize, a tab, and a number")
			}
			n, err := parseInteger(fields[1], 1, maxBytes)
			if err != nil {
				return h, fmt.Errorf("line 1 of the histogram: block size %w", err)
			}
			h.BlockSize = n
			continue
		}
		if len(fields) != 2 {
			return h, fmt.Errorf("line %d of the histogram must be a bucket, a tab, and a count", i+1)
		}
		bucket, err := parseInteger(fields[0], 0, maxBuckets-1)
		if err != nil {
			return h, fmt.Errorf("line %d of the histogram: bucket %w", i+1, err)
		}
		count, err := parseInteger(fields[1], 0, 1<<40)
		if err != nil {
			return h, fmt.Errorf("line %d of the histogram: count %w", i+1, err)
		}
		for int64(len(h.Counts)) <= bucket {
			h.Counts = append(h.Counts, 0)
		}
		h.Counts[bucket] = count
	}
	return h, h.check()
}

func (h LengthHistogram) check() error {
	if len(h.Counts) > maxBuckets {
		return fmt.Errorf("the histogram has more than %d buckets", maxBuckets)
	}
	switch largest := h.Max(); {
	case largest == 0:
		return errors.New("the histogram has no bucket with a count")
	case largest > maxBytes:
		return fmt.Errorf("the histogram reaches %d bytes; a row holds at most %d", largest, maxBytes)
	}
	return nil
}
