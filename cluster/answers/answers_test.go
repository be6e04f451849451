package answers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

// nodes are a plain one, one whose state is encrypted, and one with disks of its own.
var nodes = []facts.Node{
	{Name: "edge-01"},
	{Name: "edge-02", State: &spec.State{Encrypt: spec.EncryptTPM}},
	{Name: "storage-01", Disks: []spec.Disk{
		{Use: "osd", Selector: spec.DiskSelector{Serial: "S5Y1NG0R"}},
		{Use: "state", Selector: spec.DiskSelector{Serial: "S5H9NX0R"}},
	}},
}

// told is the report of a file, one problem a line.
func told(text string) (*File, []string) {
	f, report := Parse("a.yaml", []byte(text))
	report = append(report, Check(f, nodes)...).Sorted()
	var out []string
	for _, p := range report {
		out = append(out, p.String())
	}
	return f, out
}

func TestFilesThatAreRight(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want spec.Answers
	}{
		"all of it": {"node: edge-02\ndisk:\n  serial: S5H9NX0R\nstate: erase\nencrypt: tpm2\nthen: power-off\n", spec.Answers{
			Node: "edge-02", Disk: spec.DiskSelector{Serial: "S5H9NX0R"}, State: spec.StateErase, Encrypt: spec.EncryptTPM, Then: spec.ThenPowerOff}},
		"the least":                        {"node: edge-01\ndisk: {wwn: \"0x5000c500a1b2c3d4\"}\n", spec.Answers{Node: "edge-01", Disk: spec.DiskSelector{WWN: "0x5000c500a1b2c3d4"}}},
		"a name of by-id, none encrypted":  {"node: edge-01\ndisk: {byID: nvme-Fast_S5H9}\nencrypt: none\n", spec.Answers{Node: "edge-01", Disk: spec.DiskSelector{ByID: "nvme-Fast_S5H9"}, Encrypt: "none"}},
		"the disk that has the state, too": {"node: storage-01\ndisk: {serial: S5H9NX0R}\n", spec.Answers{Node: "storage-01", Disk: spec.DiskSelector{Serial: "S5H9NX0R"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, problems := told(tc.text)
			require.Empty(t, problems)
			require.Equal(t, tc.want, f.Answers)
		})
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	a := spec.Answers{Node: "edge-01"}
	a.FillDefaults()
	require.Equal(t, spec.Answers{Node: "edge-01", State: spec.StateKeep, Then: spec.ThenRestart}, a)
}

func TestWhatIsWrong(t *testing.T) {
	const good = "node: edge-01\ndisk: {serial: S5H9NX0R}\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                 {"# later\n", []string{"a.yaml:1:1: error: the file is empty; it needs at least the keys node or disk"}},
		"not YAML":                {"node: [\n", []string{"a.yaml:1:1: error: not valid YAML: did not find expected node content; indent it like its neighbours"}},
		"a list":                  {"- edge-01\n", []string{"a.yaml:1:1: error: the file is not a mapping; write keys with values, as in `spore init`"}},
		"two documents":           {good + "---\n" + good, []string{"a.yaml:3:1: error: a second YAML document begins here; a file holds one: remove the --- line"}},
		"no key that is needed":   {"then: stay\n", []string{`a.yaml:1:1: error: the key "disk" is missing; add it`, `a.yaml:1:1: error: the key "node" is missing; add it`}},
		"a key that is misspelt":  {"node: edge-01\ndisks: {serial: S5H9NX0R}\n", []string{`a.yaml:2:1: error: unknown key "disks"; did you mean "disk"?`}},
		"a key that is not known": {good + "passphrase: x\n", []string{`a.yaml:3:1: error: unknown key "passphrase"; known keys: node, disk, state, encrypt, then`}},
		"a key twice":             {good + "node: edge-02\n", []string{`a.yaml:3:1: error: the key "node" is here twice, first in line 1; keep one of them`}},
		"a key that is no text":   {good + "1: 2\n", []string{"a.yaml:3:1: error: this key is not a plain text; write one of node, disk, state, encrypt or then, without anchors and merges"}},
		"an anchor":               {"node: &a edge-01\ndisk: {serial: S5H9NX0R}\n", []string{"a.yaml:1:7: error: node uses an anchor or alias; write the value out"}},
		"a key without a value":   {good + "then:\n", []string{"a.yaml:3:6: error: then has no value; write one, or remove the key"}},
		"a number as a serial":    {"node: edge-01\ndisk: {serial: 12345678}\n", []string{`a.yaml:2:16: error: serial is not a text; put it into quotes: "12345678"`}},
		"a list as a node":        {"node: [edge-01]\ndisk: {serial: S5H9NX0R}\n", []string{"a.yaml:1:7: error: node is not a text; write one value behind the colon"}},
		"a disk by its name":      {"node: edge-01\ndisk: /dev/sda\n", []string{"a.yaml:2:7: error: disk is not a mapping; write `disk: {serial: S5H9NX0R}`, or wwn or byID, as `spore disks` shows them"}},
		"a disk by its name, as a serial": {"node: edge-01\ndisk: {serial: sda}\n", []string{
			"a.yaml:2:16: error: \"sda\" is a kernel name, which moves from disk to disk; write what `spore disks` shows for it"}},
		"a selector that is misspelt": {"node: edge-01\ndisk: {serail: A1B2}\n", []string{`a.yaml:2:8: error: unknown key "serail"; did you mean "serial"?`}},
		"a pattern":                   {"node: edge-01\ndisk: {byID: nvme-*}\n", []string{`a.yaml:2:14: error: the selector "nvme-*" is a pattern and can match two disks; write the whole byID of one disk`}},
		"two selectors": {"node: edge-01\ndisk: {serial: A1B2C3, wwn: \"0x5000c500a1b2c3d4\"}\n", []string{
			"a.yaml:2:7: error: a selector has exactly one of serial, wwn and byID, because two could match different disks: keep the serial"}},
		"no selector":     {"node: edge-01\ndisk: {}\n", []string{"a.yaml:2:7: error: the selector names no disk; write one of serial, wwn and byID, as `spore disks` shows them"}},
		"a node too many": {"node: edge-03\ndisk: {serial: S5H9NX0R}\n", []string{`a.yaml:1:7: error: cluster.yaml has no node "edge-03"; did you mean "edge-01"?`}},
		"another cluster": {"node: mail\ndisk: {serial: S5H9NX0R}\n", []string{`a.yaml:1:7: error: cluster.yaml has no node "mail"; its nodes are edge-01, edge-02, storage-01`}},
		"the disk of an OSD, by another name": {"node: storage-01\ndisk: {byID: ata-Fast_S5Y1NG0R}\n", []string{
			"a.yaml:2:7: error: nodes/storage-01.yaml gives this disk to osd; name another one, or take it out of that file"}},
		"encryption that is not asked for": {good + "encrypt: tpm2\n", []string{
			"a.yaml:3:10: error: the configuration says state.encrypt: none for node edge-01, and an answer file cannot change that; write none, " +
				"or change cluster.yaml or nodes/edge-01.yaml and build again"}},
		"encryption that is left out": {"node: edge-02\ndisk: {serial: S5H9NX0R}\nencrypt: none\n", []string{
			"a.yaml:3:10: error: the configuration says state.encrypt: tpm2 for node edge-02, and an answer file cannot change that; write tpm2, " +
				"or change cluster.yaml or nodes/edge-02.yaml and build again"}},
		"all at once": {"node: edge-1\ndisk: {serial: \"*\"}\nstate: wipe\nencrypt: luks\nthen: reboot\n", []string{
			`a.yaml:1:7: error: cluster.yaml has no node "edge-1"; did you mean "edge-01"?`,
			`a.yaml:2:16: error: the selector "*" is a pattern and can match two disks; write the whole serial of one disk`,
			`a.yaml:3:8: error: what becomes of the state "wipe" is unknown; write keep or erase`,
			`a.yaml:4:10: error: the key of the state "luks" is unknown; write none, tpm2, tpm2-pin, passphrase or host-key`,
			`a.yaml:5:7: error: what the machine does then "reboot" is unknown; write restart, power-off or stay`,
		}},
		"too large": {"#" + strings.Repeat("x", MaxSize), []string{"a.yaml:1:1: error: the file has more than 64 KiB; an answer file has six lines"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := told(tc.text)
			require.Equal(t, tc.want, problems)
		})
	}
}

// TestAHostileFileIsRefusedAndCostsLittle has files of the largest size that is read.
func TestAHostileFileIsRefusedAndCostsLittle(t *testing.T) {
	full := func(begin, again string) string {
		return begin + strings.Repeat(again, (MaxSize-len(begin))/len(again))
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("%c: &%[1]c [%s*%[3]c]\n", 'b'+i, strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i), 8), 'a'+i)
	}
	const good = "node: edge-01\ndisk: {serial: S5H9NX0R}\n"
	for name, text := range map[string]string{
		"a bomb of aliases": bomb + good, "a bomb as the node": bomb + "node: *m\ndisk: {serial: S5H9NX0R}\n", "an alias of itself": "node: &a [*a]\n",
		"deep": full("node: ", "["), "deep in blocks": full("node:\n  ", "- "), "many values": full("node: [", "a,"), "many keys": full("", "?\n"),
		"many unknown keys": full(good, "a: b\n"), "a long text": full("node: ", "x"), "a NUL": good + "\x00", "UTF-16": "\xff\xfen\x00o\x00d\x00e\x00:\x00",
		"a bundle of another node": good + "bundle: eA==\n", "what a terminal obeys": "node: \"\\e[2J\"\ndisk: {serial: \"\\e[2J\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, problems := told(text)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
			require.NotEmpty(t, problems)
			for _, p := range problems {
				require.NotContains(t, p, "\x1b")
				require.Less(t, len(p), 1024)
			}
		})
	}
}

// FuzzParse has the parser take anything, and what is without error name one disk and a node.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"node: edge-01\ndisk: {serial: S5H9NX0R}\n", "node: edge-02\ndisk:\n  wwn: \"0x5000c500a1b2c3d4\"\nstate: erase\nencrypt: tpm2\nthen: stay\n",
		"node: &a edge-01\ndisk: *a\n", "<<: {node: edge-01}\n", "disk: [", "--- \n---\n", "? {a: b}\n: c\n", "node: !!binary ZWRnZQ==\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, report := Parse("a.yaml", data)
		report = append(report, Check(file, nodes)...)
		for _, p := range report {
			require.Positive(t, p.Line)
			require.Positive(t, p.Column)
		}
		if report.Count(check.Error) > 0 {
			return
		}
		d := file.Disk
		set := 0
		for _, s := range []string{d.Serial, d.WWN, d.ByID} {
			if s != "" {
				set++
			}
		}
		require.Equal(t, 1, set)
		require.Contains(t, []string{"edge-01", "edge-02", "storage-01"}, file.Node)
	})
}
