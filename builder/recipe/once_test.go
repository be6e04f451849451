package recipe

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onceSettings are the settings of a unit that runs once, by section and key, and all of its text.
func onceSettings(t *testing.T, unit string) (settings map[string][]string, text string) {
	t.Helper()
	data, err := onceUnits.ReadFile("once/" + unit)
	require.NoError(t, err)
	settings = map[string][]string{}
	eachSetting(string(data), func(section, key, value string) {
		settings[section+key] = append(settings[section+key], strings.Fields(value)...)
	})
	return settings, string(data)
}

func TestWhatIsMadeOnTheNodeIsThereBeforeItsServiceAndOutlivesAPowerCut(t *testing.T) {
	for _, o := range onces {
		t.Run(o.unit, func(t *testing.T) {
			s, text := onceSettings(t, o.unit)
			require.Equal(t, []string{"oneshot"}, s["[Service]Type"])
			require.Equal(t, []string{"yes"}, s["[Service]RemainAfterExit"])
			wanting := slices.Concat(s["[Install]RequiredBy"], s["[Install]WantedBy"])
			require.NotEmpty(t, wanting)
			for _, unit := range wanting {
				if unit != "multi-user.target" {
					require.Contains(t, s["[Unit]Before"], unit)
				}
			}
			require.NotEmpty(t, s["[Unit]RequiresMountsFor"], "it is kept in state")
			require.Contains(t, text, "sync ", "a service has used it by the next power cut")
		})
	}
}

func TestTheFolderOfSSHKeepsItsModeWhenKeysAreCopied(t *testing.T) {
	_, text := onceSettings(t, "spore-ssh-host-keys.service")
	require.Contains(t, text, "install -d -m 0755 /var/lib/ssh-host-keys/etc /var/lib/ssh-host-keys/etc/ssh\n")
}

func TestADatabaseThatAPowerCutHasLeftHalfMadeIsMadeAgain(t *testing.T) {
	for _, unit := range []string{"spore-postgresql.service", "spore-mariadb.service"} {
		s, text := onceSettings(t, unit)
		require.Len(t, s["[Unit]ConditionPathExists"], 1)
		mark := strings.TrimPrefix(s["[Unit]ConditionPathExists"][0], "!")
		made := strings.Index(text, "sync --file-system")
		require.Positive(t, made, unit)
		require.Greater(t, strings.Index(text, "touch "+mark+"\n"), made, "the mark comes last")
	}
}
