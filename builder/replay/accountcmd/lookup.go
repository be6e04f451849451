package accountcmd

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
)

// getent looks up accounts. No build has hosts or networks, so nothing is found there.
func (s commands) getent(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "service,s=", "no-idn,i", "no-addrconfig,A")
	if err != nil {
		return 0, err
	}
	if len(o.operands) == 0 {
		return c.Fail(1, "wrong number of arguments")
	}
	passwd, group, shadow, gshadow := s.db.Render()
	var file []byte
	byID := false
	switch o.operands[0] {
	case "passwd":
		file, byID = passwd, true
	case "group":
		file, byID = group, true
	case "shadow":
		file = shadow
	case "gshadow":
		file = gshadow
	case "hosts", "ahosts", "ahostsv4", "ahostsv6", "netgroup", "networks", "ethers":
		return 2, nil
	default:
		return 0, fmt.Errorf("getent: the database %.60q is not replayed", o.operands[0])
	}
	keys := o.operands[1:]
	if len(keys) == 0 {
		return written(c.Stdout.Write(file))
	}
	status := 0
	for _, key := range keys {
		line := find(file, key, byID)
		if line == nil {
			status = 2
		}
		if s, err := written(c.Stdout.Write(line)); s != 0 || err != nil {
			return s, err
		}
	}
	return status, nil
}

// find returns the line of a name; or of an id, as getent(1) takes a key of digits.
func find(file []byte, key string, byID bool) []byte {
	_, err := strconv.ParseUint(key, 10, 32)
	byID = byID && err == nil
	for _, line := range bytes.SplitAfter(file, []byte("\n")) {
		f := strings.SplitN(string(line), ":", 4)
		if len(f) == 4 && (f[0] == key && !byID || byID && f[2] == strings.TrimLeft(key[:len(key)-1], "0")+key[len(key)-1:]) {
			return line
		}
	}
	return nil
}

// id prints ids of a user; without a name those of root, who runs the script.
func (s commands) id(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "a", "group,g", "groups,G", "name,n", "real,r", "user,u", "zero,z")
	if err != nil {
		return 0, err
	}
	chosen := 0
	for _, name := range []string{"user", "group", "groups"} {
		if o.has(name) {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return c.Fail(1, "cannot print \"only\" of more than one choice")
	case chosen == 0 && (o.has("name") || o.has("real") || o.has("zero")):
		return c.Fail(1, "printing only names or real IDs requires -u, -g, or -G")
	}
	names, end := o.operands, "\n"
	if len(names) == 0 {
		names = []string{"root"}
	}
	if o.has("zero") {
		end = "\x00"
	}
	status := 0
	for _, name := range names {
		u, ok := s.userNamed(name)
		if !ok {
			status, _ = c.Fail(1, "'%s': no such user", name)
			continue
		}
		if s, err := written(fmt.Fprint(c.Stdout, s.idText(o, u)+end)); s != 0 || err != nil {
			return s, err
		}
	}
	return status, nil
}

func (s commands) idText(o options, u accounts.User) string {
	one := func(id uint32, name string) string {
		if o.has("name") {
			return name
		}
		return strconv.FormatUint(uint64(id), 10)
	}
	groups := s.groupsOf(u)
	var list []string
	switch {
	case o.has("user"):
		return one(u.ID, u.Name)
	case o.has("group"):
		return one(groups[0].ID, groups[0].Name)
	case o.has("groups"):
		for _, g := range groups {
			list = append(list, one(g.ID, g.Name))
		}
		if o.has("zero") {
			return strings.Join(list, "\x00")
		}
		return strings.Join(list, " ")
	}
	for _, g := range groups {
		list = append(list, fmt.Sprintf("%d(%s)", g.ID, g.Name))
	}
	return fmt.Sprintf("uid=%d(%s) gid=%s groups=%s", u.ID, u.Name, list[0], strings.Join(list, ","))
}

func (s commands) groups(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu)
	if err != nil {
		return 0, err
	}
	named := len(o.operands) > 0
	names := o.operands
	if !named {
		names = []string{"root"}
	}
	status := 0
	for _, name := range names {
		u, ok := s.userNamed(name)
		if !ok {
			status, _ = c.Fail(1, "'%s': no such user", name)
			continue
		}
		var list []string
		for _, g := range s.groupsOf(u) {
			list = append(list, g.Name)
		}
		text := strings.Join(list, " ")
		if named {
			text = name + " : " + text
		}
		if s, err := written(fmt.Fprintln(c.Stdout, text)); s != 0 || err != nil {
			return s, err
		}
	}
	return status, nil
}

func whoami(_ context.Context, c *command.Call) (int, error) {
	if len(c.Args) > 0 {
		return c.Fail(1, "extra operand '%s'", c.Args[0])
	}
	return written(fmt.Fprintln(c.Stdout, "root"))
}

// logname fails as it does wherever nobody has logged in.
func logname(_ context.Context, c *command.Call) (int, error) { return c.Fail(1, "no login name") }
