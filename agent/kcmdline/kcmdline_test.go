package kcmdline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/kcmdline"
)

var a, b = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

func TestBothHashesAreRead(t *testing.T) {
	for name, line := range map[string]string{
		"plain":            "roothash=" + a + " spore.clusterhash=" + b + " ro console=ttyS0",
		"with a line end":  "ro\troothash=" + a + "  spore.clusterhash=" + b + "\n",
		"upper case":       "roothash=" + strings.ToUpper(a) + " spore.clusterhash=" + b,
		"quoted value":     `x="roothash=no spore" roothash="` + a + `" spore.clusterhash=` + b,
		"quoted word":      `"roothash=` + a + `" spore.clusterhash=` + b,
		"twice the same":   "roothash=" + a + " roothash=" + a + " spore.clusterhash=" + b,
		"words that begin": "roothash2=x spore.clusterhash=" + b + " roothash=" + a + " xroothash=1",
	} {
		got, err := kcmdline.Parse(line)
		require.NoError(t, err, name)
		require.Equal(t, kcmdline.Args{RootHash: a, ClusterHash: b}, got, name)
	}
}

func TestWordsBehindThoseOfTheImageAreFromOutside(t *testing.T) {
	line := "roothash=" + a + " spore.clusterhash=" + b + " ro"
	for text, want := range map[string][]string{
		"": nil, " spore.console": nil, " spore.end": {}, " spore.end\n": {}, " spore.end spore.console": {"spore.console"},
		` spore.end "a b" init=/x spore.end y`: {"a b", "init=/x", "spore.end", "y"}, " xspore.end y": nil, " spore.end=1 y": nil,
	} {
		got, err := kcmdline.Parse(line + text)
		require.NoError(t, err)
		require.Equal(t, want, got.Outside, text)
	}
}

func TestTheURLOfTheImageIsTheLastThatIsSaid(t *testing.T) {
	line := "roothash=" + a + " spore.clusterhash=" + b
	for text, want := range map[string]string{
		"": "", " spore.url=http://a/x": "http://a/x", ` spore.url=http://a/x "spore.url=http://b/x"`: "http://b/x", " xspore.url=http://a/": "", " spore.url": "", " spore.url=": "",
	} {
		got, err := kcmdline.Parse(line + text)
		require.NoError(t, err)
		require.Equal(t, want, got.URL, text)
	}
}

func TestTheMediumThatABIOSStartedIsRead(t *testing.T) {
	line := "roothash=" + a + " spore.clusterhash=" + b
	got, err := kcmdline.Parse(line + " spore.loader=DEADBEEF-1111-4222-8333-444455556666")
	require.NoError(t, err)
	require.Equal(t, "deadbeef-1111-4222-8333-444455556666", got.Loader.String())
	for _, bad := range []string{"", "sda1", "deadbeef-1111-4222-8333-44445555666"} {
		_, err := kcmdline.Parse(line + " spore.loader=" + bad)
		require.ErrorContains(t, err, "spore.loader: \""+bad+"\" is not a GUID")
	}
}

func TestHowSlowTheMachineIsIsTheLastThatIsSaid(t *testing.T) {
	line := "roothash=" + a + " spore.clusterhash=" + b
	for text, want := range map[string]int{"": 0, " spore.slow=1": 1, " spore.slow=5 spore.slow=20": 20, " xspore.slow=3": 0, " spore.slow": 0} {
		got, err := kcmdline.Parse(line + text)
		require.NoError(t, err)
		require.Equal(t, want, got.Slow, text)
	}
	for _, bad := range []string{"", "0", "-1", "21", "fast", "1.5"} {
		_, err := kcmdline.Parse(line + " spore.slow=" + bad)
		require.ErrorContains(t, err, "spore.slow is \""+bad+"\"; write 1 to 20")
	}
}

func TestHowLongTheWatchdogWaitsIsReadAsSystemdDoes(t *testing.T) {
	line := "roothash=" + a + " spore.clusterhash=" + b
	for text, want := range map[string]time.Duration{
		"": 0, " systemd.watchdog_sec=20": 20 * time.Second, " systemd.watchdog_sec=20 systemd.watchdog_sec=90": 90 * time.Second, " systemd.watchdog_sec=3600": time.Hour,
		" systemd.watchdog_sec=off": -1, " systemd.watchdog_sec=0": -1, " systemd.watchdog_sec=off systemd.watchdog_sec=5": 5 * time.Second,
		" systemd.watchdog_device=/dev/watchdog1": -1, " systemd.watchdog_device=/dev/watchdog1 systemd.watchdog_sec=5": -1, " systemd.watchdog_device=/dev/watchdog0": 0,
		" systemd.watchdog_device=/dev/watchdog1 systemd.watchdog_device=": 0, " systemd.watchdog_device=/dev/watchdog systemd.watchdog_sec=5": 5 * time.Second,
		// What only systemd knows leaves stage1 with its own time.
		" systemd.watchdog_sec=1min": 0, " systemd.watchdog_sec=default": 0, " systemd.watchdog_sec": 0, " systemd.watchdog_sec=": 0, " systemd.watchdog_sec=-5": 0,
		" systemd.watchdog_sec=3601": 0, " systemd.watchdog_sec=99999999999999999999": 0, " xsystemd.watchdog_sec=5": 0,
	} {
		got, err := kcmdline.Parse(line + text)
		require.NoError(t, err)
		require.Equal(t, want, got.Watchdog, text)
	}
}

func TestBadHashesAreRefused(t *testing.T) {
	for line, message := range map[string]string{
		"":                                 "roothash= is missing",
		"roothash=" + a:                    "spore.clusterhash= is missing",
		"roothash=abc":                     "roothash must be 64 hex digits",
		"roothash=" + a[:62] + "zz":        "roothash must be 64 hex digits",
		"roothash=" + a + a:                "roothash must be 64 hex digits",
		"roothash":                         "roothash must be 64 hex digits",
		"roothash=" + a + " roothash=" + b: "two values of roothash",
		"roothash=" + a + ` "spore.clusterhash=` + b + " quiet": "must be 64 hex digits",
	} {
		_, err := kcmdline.Parse(line)
		require.ErrorContains(t, err, message, line)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("roothash=" + a + ` spore.clusterhash="` + b + `"`)
	f.Fuzz(func(t *testing.T, line string) {
		if args, err := kcmdline.Parse(line); err == nil {
			require.Len(t, args.RootHash, 64)
			require.Len(t, args.ClusterHash, 64)
		}
	})
}
