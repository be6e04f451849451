package kickstart

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/cluster/answers"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

// whole is all that comes of a file, for a person to review in testdata/*.golden.
func whole(t *Translation, from string) string {
	return "== the answer file\n" + t.AnswerFile(from) + "== the node's file\n" + t.NodeFile() + "== cluster.yaml\n" + t.ClusterLines() +
		"== left out\n" + t.LeftLines()
}

// The golden files are written anew with UPDATE=1.
func TestKickstartFilesAreTranslated(t *testing.T) {
	names, err := filepath.Glob("testdata/*.ks")
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			tr, err := Translate(data)
			require.NoError(t, err)
			got := whole(tr, filepath.Base(name))
			require.NotContains(t, got, "topsecret", "no value of a secret is shown")
			golden := strings.TrimSuffix(name, ".ks") + ".golden"
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestATranslationIsAnAnswerFile(t *testing.T) {
	data, err := os.ReadFile("testdata/server.ks")
	require.NoError(t, err)
	tr, err := Translate(data)
	require.NoError(t, err)
	f, report := answers.Parse("a.yaml", []byte(tr.AnswerFile("server.ks")))
	require.Empty(t, report)
	require.Equal(t, tr.Answers, f.Answers)
	require.Equal(t, spec.Answers{
		Node: "edge-01", Disk: spec.DiskSelector{WWN: "0x5000c500a1b2c3d4"}, State: spec.StateErase,
		Encrypt: spec.EncryptPassphrase, Then: spec.ThenRestart,
	}, f.Answers)
	require.Empty(t, answers.Check(f, []facts.Node{{Name: "edge-01", State: &spec.State{Encrypt: spec.EncryptPassphrase}}}))
}

func TestHowAnInstallationEnds(t *testing.T) {
	for text, want := range map[string]string{
		"reboot": spec.ThenRestart, "poweroff": spec.ThenPowerOff, "shutdown": spec.ThenPowerOff, "halt": spec.ThenStay, "": spec.ThenStay,
		"# reboot": spec.ThenStay, "reboot\nhalt": spec.ThenStay, "%post\nreboot\n%end\n": spec.ThenStay, "%post\n%end\nreboot": spec.ThenRestart,
	} {
		tr, err := Translate([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, tr.Answers.Then, text)
	}
}

func TestWhichDisk(t *testing.T) {
	for text, want := range map[string]spec.DiskSelector{
		"ignoredisk --only-use=sda":                                                         {},
		"ignoredisk --only-use=/dev/disk/by-id/ata-X_1":                                     {ByID: "ata-X_1"},
		"ignoredisk --only-use disk/by-id/ata-X_1":                                          {ByID: "ata-X_1"},
		"ignoredisk --only-use=disk/by-path/pci-0000:00":                                    {},
		"ignoredisk --only-use=disk/by-id/a,disk/by-id/b":                                   {},
		"ignoredisk --drives=disk/by-id/ata-X_1":                                            {},
		"clearpart --all --drives=disk/by-id/ata-X_1":                                       {ByID: "ata-X_1"},
		"ignoredisk --only-use=sda\nclearpart --all --drives=disk/by-id/ata-X_1":            {},
		"ignoredisk --only-use=disk/by-id/nvme-*":                                           {},
		"ignoredisk --only-use=disk/by-id/wwn-0x5000c500a1b2c3d4-part2":                     {},
		"clearpart --drives=disk/by-id/ata-Y\nignoredisk --only-use=disk/by-id/wwn-0x12345": {ByID: "wwn-0x12345"},
	} {
		tr, err := Translate([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, tr.Answers.Disk, text)
	}
}

func TestAFileThatIsNoText(t *testing.T) {
	for data, want := range map[string]string{
		"\x7fELF\x00":                    "line 1: the control character",
		"a\n\xff":                        "line 2: the byte 0xff is not UTF-8",
		strings.Repeat("#\n", MaxSize/2): "",
		strings.Repeat("#", MaxSize+1):   "it has more than 1024 KiB",
	} {
		_, err := Translate([]byte(data))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestALineThatGoesOnForTheWholeFileIsReadInTime(t *testing.T) {
	start := time.Now()
	tr, err := Translate([]byte(strings.Repeat("\\\n", MaxSize/2-20) + "reboot\n"))
	require.NoError(t, err)
	require.Equal(t, spec.ThenRestart, tr.Answers.Then)
	require.Less(t, time.Since(start), 20*time.Second, "it took minutes when each line copied all before it")
}

// FuzzTranslate: whatever the file says, what comes of it is YAML of the form that it is meant for, without a key that is
// not known, and each line that was left out is one of the file.
func FuzzTranslate(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.ks")
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("network --device=\"a: b\" --bondslaves='#,x' --vlanid=1 --hostname=yes\nclearpart --drives=\\\n"))
	f.Add([]byte("ignoredisk --only-use=disk/by-id/0x10\nnetwork --hostname=0x1f --ip=::ffff:1.2.3.4 --netmask=0.0.0.0\n%end\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Translate(data)
		if err != nil {
			return
		}
		file, report := answers.Parse("a.yaml", []byte(tr.AnswerFile("a\nb.ks")))
		for _, p := range report {
			require.Equal(t, `the key "node" is missing; add it`, p.Message)
		}
		require.Equal(t, tr.Answers, file.Answers)
		if text := tr.NodeFile(); text != "" {
			d := yaml.NewDecoder(strings.NewReader(text))
			d.KnownFields(true)
			var n spec.NodeFile
			require.NoError(t, d.Decode(&n), text)
			require.Len(t, n.Interfaces, len(tr.Interfaces))
			for i, in := range tr.Interfaces {
				require.Equal(t, in.Interface, n.Interfaces[i])
			}
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, l := range tr.Left {
			require.LessOrEqual(t, l.Line, lines)
			require.NotContains(t, l.What+l.Why, "\n")
		}
	})
}
