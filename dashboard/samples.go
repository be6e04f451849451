package dashboard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxLine bounds a line of metrics in bytes.
const maxLine = 64 << 10

// sample is a value of a metric, by its name and labels as they were written.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// readSamples reads metrics in the text format of Prometheus, and gives those that begin with one of the prefixes to
// each. Comments, and values that are no finite numbers, are left out.
func readSamples(r io.Reader, prefixes []string, each func(sample)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		wanted := false
		for _, p := range prefixes {
			wanted = wanted || strings.HasPrefix(line, p)
		}
		if !wanted {
			continue
		}
		s, err := parseSample(line)
		if err != nil {
			return err
		}
		if !math.IsNaN(s.value) && !math.IsInf(s.value, 0) {
			each(s)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the metrics are malformed: %w", err)
	}
	return nil
}

var errSample = errors.New("the metrics are malformed: a line is no sample")

// parseSample reads NAME{LABEL="VALUE",…} VALUE [TIME].
func parseSample(line string) (s sample, err error) {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return s, errSample
	}
	s.name, line = line[:end], line[end:]
	if strings.HasPrefix(line, "{") {
		if s.labels, line, err = parseLabels(line[1:]); err != nil {
			return s, err
		}
	}
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return s, errSample
	}
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, errSample
	}
	return s, nil
}

func parseLabels(text string) (labels map[string]string, rest string, err error) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, " ,")
		if strings.HasPrefix(text, "}") {
			return labels, text[1:], nil
		}
		name, after, found := strings.Cut(text, `="`)
		if !found {
			return nil, "", errSample
		}
		var value strings.Builder
		for {
			i := strings.IndexAny(after, `"\`)
			if i < 0 || after[i] == '\\' && i+1 == len(after) {
				return nil, "", errSample
			}
			value.WriteString(after[:i])
			if after[i] == '"' {
				after = after[i+1:]
				break
			}
			switch c := after[i+1]; c {
			case 'n':
				value.WriteByte('\n')
			default:
				value.WriteByte(c)
			}
			after = after[i+2:]
		}
		labels[strings.TrimSpace(name)], text = value.String(), after
	}
}
