package unitfile

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSettingsHaveTheirLine(t *testing.T) {
	settings, faults := Parse([]byte(strings.Join([]string{
		"# a comment",
		"[Unit]",
		"Description = A gateway ",
		"",
		"[Service]",
		"ExecStart=/usr/bin/gateway \\",
		"  --listen \\",
		"# between joined lines",
		"  127.0.0.1:8080",
		"Environment=",
		"; another comment",
		"\tExecStop=/bin/true\r",
		"[X-Mine]",
		"Anything=goes",
		"[Install]",
		"WantedBy=multi-user.target",
	}, "\n")), ".service")
	require.Empty(t, faults)
	require.Equal(t, []Setting{
		{3, "Unit", "Description", "A gateway"},
		{6, "Service", "ExecStart", "/usr/bin/gateway    --listen    127.0.0.1:8080"},
		{10, "Service", "Environment", ""},
		{12, "Service", "ExecStop", "/bin/true"},
		{16, "Install", "WantedBy", "multi-user.target"},
	}, settings)
}

func TestWhatSystemdWouldPassOverIsAFault(t *testing.T) {
	const list = "write one of [Unit], [Service], [Install]"
	for name, tc := range map[string]struct{ text, want string }{
		"a line without =":               {"[Service]\nExecStart /bin/true", "2:1: the line has no =; write KEY=VALUE, or join it to the line before by a \\ at the end of that one"},
		"a line that was to be joined":   {"[Service]\nExecStart=/bin/true \\ \n  --now", "3:1: the line has no =; write KEY=VALUE, or join it to the line before by a \\ at the end of that one"},
		"a key that is empty":            {"[Service]\n=x", "2:1: there is no key before the =; write KEY=VALUE"},
		"a setting above all sections":   {"ExecStart=/bin/true", "1:1: ExecStart= is above the first section; write it below one of [Unit], [Service], [Install]"},
		"an unknown section":             {"[Servce]\nExecStart=/bin/true", "1:1: the section [Servce] is unknown, so that systemd would pass over it; " + list},
		"the section of another kind":    {"[Timer]\nOnBootSec=1", "1:1: [Timer] is a section of .timer units, and this is a .service; " + list},
		"a section that is not closed":   {"[Service\nType=exec", "1:1: [Service is not a section; " + list},
		"a section without name":         {"[]", "1:1: [] is not a section; " + list},
		"a byte that is not UTF-8":       {"[Unit]\nDescription=\xe4", "2:13: the byte 0xe4 is not UTF-8; save the file as UTF-8"},
		"a control character":            {"[Unit]\nDescription=\x00", "2:13: the control character 0x00 does not belong in a unit; remove it"},
		"a last line that joins nothing": {"[Unit]\nAfter=a \\", "2:1: \\ at the end of the file joins it with nothing; remove it"},
		"a long line":                    {"[Unit]\n" + strings.Repeat("ä", 100), "2:1: the line has no =; write KEY=VALUE, or join it to the line before by a \\ at the end of that one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := Parse([]byte(tc.text), ".service")
			require.Len(t, faults, 1)
			require.Equal(t, tc.want, fmt.Sprintf("%d:%d: %s", faults[0].Line, faults[0].Column, faults[0].Message))
		})
	}
}

func TestAFileHasBounds(t *testing.T) {
	_, faults := Parse(make([]byte, MaxSize+1), ".service")
	require.Equal(t, []Fault{{1, 1, "it has more than 1 MiB, and systemd reads no such line; make it smaller"}}, faults)
	_, faults = Parse([]byte(strings.Repeat("x\n", 1000)), ".service")
	require.Len(t, faults, maxFaults)
}

func TestATargetHasNoSectionOfItsOwn(t *testing.T) {
	require.Equal(t, []string{"Unit", "Install"}, Sections(".target"))
	require.Equal(t, []string{".automount", ".mount", ".path", ".service", ".slice", ".socket", ".swap", ".target", ".timer"}, Kinds())
}

// Our own units are read without a fault: they are what systemd reads on every node.
func TestUnitsOfSporeHaveNoFault(t *testing.T) {
	names, err := filepath.Glob("../../../units/*")
	require.NoError(t, err)
	seen := 0
	for _, name := range names {
		if kind := path.Ext(name); kind != ".go" && kind != ".preset" {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			settings, faults := Parse(data, kind)
			require.Empty(t, faults, name)
			require.NotEmpty(t, settings, name)
			seen++
		}
	}
	require.Greater(t, seen, 40)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"[Unit]\nA=b\\\nc\n", "[Service]\nExecStart=/x\n[Install]\nWantedBy=a b\n", "x", "[", "\\", "=\n", "[Unit]\n#\\\n;\nA=\\\n#c\nb"} {
		f.Add([]byte(text), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		kinds := Kinds()
		settings, faults := Parse(data, kinds[int(kind)%len(kinds)])
		lines := 1 + strings.Count(string(data), "\n")
		for _, s := range settings {
			require.NotEmpty(t, s.Key)
			require.True(t, s.Line >= 1 && s.Line <= lines)
			require.NotContains(t, s.Value, "\n")
			require.Equal(t, strings.TrimSpace(s.Value), s.Value)
		}
		require.LessOrEqual(t, len(faults), maxFaults)
		for _, fault := range faults {
			require.True(t, fault.Line >= 1 && fault.Line <= lines && fault.Column >= 1)
			require.True(t, utf8.ValidString(fault.Message), fault.Message)
		}
	})
}
