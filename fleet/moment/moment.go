// Package moment is how commands read a time of day, or how long ago it was.
package moment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a time of RFC 3339, or how long before now it was: 90m, or 3d.
func Parse(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time; write 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d", text)
}
