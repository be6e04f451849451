package kickstart

import (
	"fmt"
	"strings"

	"spore/cluster/spec"
)

// ignoredisk says which disk is meant.
func (t *Translation) ignoredisk(c command) {
	if list := c.get("only-use"); list != "" {
		t.disk(c, "only-use", list)
	}
	t.rest(c, []string{"only-use"}, map[string]string{
		"drives": "no disk is written but the one that the answer file names", "interactive": "an installation asks nothing",
	})
}

// clearpart says what becomes of what is on the disk.
func (t *Translation) clearpart(c command) {
	if c.has("all") {
		t.Answers.State, t.why["state"] = spec.StateErase, at(c, "all")
	}
	if c.has("none") {
		t.Answers.State, t.why["state"] = spec.StateKeep, at(c, "none")
	}
	// What ignoredisk names is all that clearpart works on.
	if list := c.get("drives"); list != "" && t.why["disk"] == "" {
		t.disk(c, "drives", list)
	}
	always := "the disk always gets a new partition table (GPT)"
	t.rest(c, []string{"all", "none", "drives"}, map[string]string{
		"initlabel": always, "disklabel": always,
		"linux": "all but this node's state is always lost; write state: erase where that is to go, too",
		"list":  "all but this node's state is always lost; write state: erase where that is to go, too", "cdl": always,
	})
}

// autopart says whether the data of the machine are encrypted.
func (t *Translation) autopart(c command) {
	if c.has("encrypted") {
		t.Answers.Encrypt, t.why["encrypt"] = spec.EncryptPassphrase, at(c, "encrypted")
	}
	fixed := "the layout is fixed (docs/how-it-works.md)"
	t.rest(c, []string{"encrypted"}, map[string]string{
		"passphrase": "a passphrase does not belong into a file: the node asks for it at its first start (docs/disks.md); this file has one in plain text",
		"type":       fixed, "fstype": fixed, "nolvm": fixed, "noboot": fixed, "nohome": fixed, "noswap": fixed,
		"luks-version": "it is LUKS2", "cipher": "it is aes-xts-plain64", "pbkdf": "it is not to be chosen", "escrowcert": "the recovery key is in the node's bundle",
		"backuppassphrase": "the recovery key is in the node's bundle",
	})
}

// disk takes a list of disks in the words of a kickstart file: names below /dev.
func (t *Translation) disk(c command, option, list string) {
	what := c.name + " --" + option
	t.why["disk"] = at(c, option)
	t.Answers.Disk = spec.DiskSelector{}
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) != 1 {
		t.left(c.line, what, fmt.Sprintf("it names %d disks, and the system is installed on one: write one into the answer file, and the others into disks of the node's file",
			len(names)))
		return
	}
	name := strings.TrimPrefix(names[0], "/dev/")
	id, isID := strings.CutPrefix(name, "disk/by-id/")
	wwn, isWWN := strings.CutPrefix(id, "wwn-")
	switch {
	case isID && isWWN && spec.ValidWWN(wwn):
		t.Answers.Disk.WWN = strings.ToLower(wwn)
	case isID && spec.ValidByID(id) && spec.WithoutPart(id) == id:
		t.Answers.Disk.ByID = id
	default:
		t.left(c.line, what, fmt.Sprintf("%s does not name one disk for good: write its serial number, as `spore disks` shows it", shown(name)))
	}
}

// shown is a word of the file for a comment or a message.
func shown(s string) string {
	if plainWord(s) {
		return s
	}
	return fmt.Sprintf("%q", clip(s))
}

// plainWord tells whether a word means itself in a comment and in YAML.
func plainWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@+-", r))
	})
}
