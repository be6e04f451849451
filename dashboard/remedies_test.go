package dashboard_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/health"
	"spore/builder/cmd/root"
	"spore/dashboard"
)

func TestWhatIsToBeDoneAreCommands(t *testing.T) {
	all := dashboard.Remedies("configs", "edge-01")
	require.Greater(t, len(all), 15)
	all = append(all, dashboard.Advice("configs", "edge-01")...)
	require.Greater(t, len(all), 60)
	for _, text := range all {
		if text == "start the brokers that have their copies" {
			continue
		}
		if page, found := strings.CutPrefix(text, "read docs/"); found {
			page, heading, _ := strings.Cut(page, "#")
			data, err := os.ReadFile("../docs/" + page)
			require.NoError(t, err, text)
			require.Contains(t, strings.ReplaceAll(strings.ToLower(string(data)), " ", "-"), "#-"+heading+"\n", text)
			continue
		}
		cmd, args, err := root.Command().Find(strings.Fields(text)[1:])
		require.NoError(t, err, text)
		require.NotEqual(t, "spore", cmd.Name(), text)
		require.NoError(t, cmd.ParseFlags(args), text)
		require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), text)
	}
}

func TestEachConditionWithARemedyIsOne(t *testing.T) {
	var names []string
	for _, row := range health.Rows() {
		names = append(names, row.Name)
	}
	for _, condition := range dashboard.Conditions() {
		require.Contains(t, names, condition)
	}
}
