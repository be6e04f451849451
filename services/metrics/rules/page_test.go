package rules

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/alerts.md")
	require.NoError(t, err)
	return string(data)
}

func TestTheTableOfThePageIsWhatTheRulesGive(t *testing.T) {
	text, err := Page(page(t))
	require.NoError(t, err)
	require.Equal(t, text, page(t), "run go generate ./services/metrics/rules")
	_, err = Page("# Alerts\n")
	require.ErrorContains(t, err, "has not both")
}

func TestEveryAlertHasASection(t *testing.T) {
	heading := regexp.MustCompile(`(?m)^### ([A-Za-z0-9]+)\n\n((?:.+\n)+)`)
	var have []string
	for _, m := range heading.FindAllStringSubmatch(page(t), -1) {
		have = append(have, m[1])
		lines := strings.Count(m[2], "\n")
		require.LessOrEqual(t, lines, 6, m[1])
		require.Regexp(t, "`(spore|kubectl) |\\]\\(", m[2], "%s does not say what to look at", m[1])
	}
	slices.Sort(have)
	require.Equal(t, slices.Sorted(maps.Keys(all(t))), have)
}
