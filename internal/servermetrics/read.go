// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What a page may be. A store's is 2 MB, most of it buckets of histograms, which are skipped unread.
const (
	maxPage = 32 << 20
	maxKept = 1 << 20 // of the lines that are wanted
	maxLine = 64 << 10
)

// ReadPage reads a page in Prometheus's text format. A page that is cut, too long or malformed
// is an error and yields nothing: half of the threads would be half of the CPU.
func ReadPage(page io.Reader) (Figures, error) {
	wanted, err := filter(page)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(wanted))
	if err != nil {
		return nil, fmt.Errorf("not Prometheus's text format: %w", err)
	}
	figures := make(Figures)
	for name, family := range families {
		for _, m := range family.Metric {
			figures.add(name, m)
		}
	}
	return figures, nil
}

// filter keeps the lines of the metrics that are wanted. Comments go too, so that each line is read as it stands.
func filter(page io.Reader) (kept []byte, err error) {
	limited := &io.LimitedReader{R: page, N: maxPage + 1}
	lines := bufio.NewReaderSize(limited, maxLine)
	for inside := false; ; { // inside: of a long line, whose rest is to be skipped
		line, err := lines.ReadSlice('\n')
		name := line[:max(0, bytes.IndexAny(line, "{ \t"))]
		wanted := !inside && sources[string(name)] != nil
		if limited.N <= 0 {
			return nil, fmt.Errorf("the page is longer than %d MB", maxPage>>20)
		}
		switch {
		case err == nil:
			inside = false
		case errors.Is(err, bufio.ErrBufferFull) && wanted:
			return nil, fmt.Errorf("a line of %s is longer than %d KB", name, maxLine>>10)
		case errors.Is(err, bufio.ErrBufferFull):
			inside = true
		case errors.Is(err, io.EOF) && len(line) == 0 && !inside:
			return kept, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("the page is cut off in the middle of a line")
		default:
			return nil, err
		}
		if !wanted {
			continue
		}
		if len(kept)+len(line) > maxKept {
			return nil, fmt.Errorf("the page has more than %d KB of the figures that are kept", maxKept>>10)
		}
		kept = append(kept, line...)
	}
}
