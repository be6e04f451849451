package accountcmd

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
	"spore/builder/tree"
)

// Exit statuses of useradd(8), userdel(8), usermod(8), groupadd(8), groupdel(8) and groupmod(8).
const (
	badUsage    = 2
	badArgument = 3
	idTaken     = 4
	notThere    = 6
	nameTaken   = 9
)

// password refuses an option that sets a password, unless it is one that nobody can enter.
func password(c *command.Call, o options) error {
	v, ok := o.values["password"]
	rest := strings.TrimLeft(v, "!")
	if !ok || rest == "*" || rest == "" && v != "" {
		return nil
	}
	return fmt.Errorf("%s --password is not replayed: it puts a password into the image, which everybody can read", c.Name)
}

func (s commands) useradd(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "badname", "base-dir,b=", "comment,c=", "home-dir,home,d=", "expiredate,e=", "inactive,f=",
		"gid,g=", "groups,G=", "skel,k=", "key,K=", "no-log-init,l", "create-home,m",
		"no-create-home,M", "no-user-group,N", "password,p=", "system,r", "shell,s=", "uid,u=", "user-group,U")
	if err == nil {
		err = password(c, o)
	}
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one user is named")
	}
	u := accounts.User{
		Name: o.operands[0], Gecos: o.values["comment"], Shell: cmp.Or(o.values["shell"], "/bin/sh"),
		Home: cmp.Or(o.values["home-dir"], path.Join(cmp.Or(o.values["base-dir"], "/home"), o.operands[0])),
	}
	if _, ok := s.db.User(u.Name); ok {
		return c.Fail(nameTaken, "user '%s' already exists", u.Name)
	}
	if status, err := s.newID(c, o, "uid", s.takenBy, &u.ID, &u.HasID); status != 0 || err != nil {
		return status, err
	}
	groups, bad := s.groupList(o.values["groups"])
	if bad != "" {
		return c.Fail(notThere, "group '%s' does not exist", bad)
	}
	switch _, own := s.db.Group(u.Name); {
	case o.has("gid"):
		g, ok := s.groupNamed(o.values["gid"])
		if !ok {
			return c.Fail(notThere, "group '%s' does not exist", o.values["gid"])
		}
		u.Group = g.Name
	case o.has("no-user-group"):
		u.Group = "users" // GROUP of useradd(8)
	case own:
		return c.Fail(nameTaken, "group %s exists - if you want to add this user to that group, use -g.", u.Name)
	}
	if err := s.db.AddUser(u); err != nil {
		return failed(c, badArgument, err)
	}
	for _, g := range groups {
		if err := s.db.AddMember(u.Name, g); err != nil {
			return failed(c, badArgument, err)
		}
	}
	if o.has("create-home") {
		h := home{mode: 0o700, skeleton: cmp.Or(o.values["skel"], defaultSkeleton)} // HOME_MODE of login.defs(5)
		if err := s.makeHome(c, u.Name, h); err != nil {
			return 0, err
		}
	}
	return s.changed(c)
}

// newID reads an option for the id of a new account, and fails if another one has it.
func (s commands) newID(c *command.Call, o options, name string, taken func(uint32) string,
	id *uint32, has *bool) (int, error) {
	v, ok := o.values[name]
	if !ok {
		return 0, nil
	}
	n, ok := number(v)
	if !ok {
		return c.Fail(badArgument, "invalid ID '%s'", v)
	}
	if taken(n) != "" {
		return c.Fail(idTaken, "ID %d is not unique", n)
	}
	*id, *has = n, true
	return 0, nil
}

// groupList reads names and ids of groups; bad is the first that is not there.
func (s commands) groupList(list string) (names []string, bad string) {
	for _, arg := range splitComma(list) {
		g, ok := s.groupNamed(arg)
		if !ok {
			return nil, arg
		}
		names = append(names, g.Name)
	}
	return names, ""
}

func (s commands) userdel(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "force,f", "remove,r")
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one user is named")
	}
	u, ok := s.db.User(o.operands[0])
	if !ok {
		return c.Fail(notThere, "user '%s' does not exist", o.operands[0])
	}
	if o.has("remove") {
		if err := removeHome(c, u); err != nil {
			return 0, err
		}
	}
	if err := s.remove(u); err != nil {
		return failed(c, 1, err)
	}
	return s.changed(c)
}

func (s commands) usermod(_ context.Context, c *command.Call) (int, error) {
	// No account has a password that --unlock could give back.
	o, err := parse(c, gnu, "append,a", "badname,b", "comment,c=", "home,d=", "expiredate,e=", "inactive,f=", "gid,g=",
		"groups,G=", "lock,L", "unlock,U", "move-home,m", "password,p=", "remove,r", "shell,s=", "uid,u=", "add-subuids,v=",
		"add-subgids,w=")
	if err == nil {
		err = password(c, o)
	}
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one user is named")
	}
	u, ok := s.db.User(o.operands[0])
	if !ok {
		return c.Fail(notThere, "user '%s' does not exist", o.operands[0])
	}
	if v, ok := o.values["uid"]; ok && v != strconv.FormatUint(uint64(u.ID), 10) {
		return 0, fmt.Errorf("usermod --uid %s is not replayed: user %s keeps the id %d, which files have", v, u.Name, u.ID)
	}
	if status, err := s.changeGroups(c, o, u); status != 0 || err != nil {
		return status, err
	}
	for _, change := range []struct {
		option string
		set    func(user, value string) error
	}{{"comment", s.db.SetGecos}, {"shell", s.db.SetShell}, {"home", s.db.SetHome}} {
		if v, ok := o.values[change.option]; ok {
			if err := change.set(u.Name, v); err != nil {
				return failed(c, badArgument, err)
			}
		}
	}
	if v, ok := o.values["home"]; ok && o.has("move-home") && v != u.Home && c.Files.IsDir(u.Home) && !c.Files.Exists(v) {
		if err := c.Files.Rename(u.Home, v); err != nil {
			return 0, fmt.Errorf("usermod: move the home of user %s: %w", u.Name, err)
		}
	}
	for _, sub := range []struct{ option, file string }{{"add-subuids", "/etc/subuid"}, {"add-subgids", "/etc/subgid"}} {
		if v, ok := o.values[sub.option]; ok {
			if status, err := addSubordinate(c, sub.file, u.Name, v); status != 0 || err != nil {
				return status, err
			}
		}
	}
	return s.changed(c)
}

// changeGroups does the options --gid and --groups of usermod.
func (s commands) changeGroups(c *command.Call, o options, u accounts.User) (int, error) {
	groups, bad := s.groupList(o.values["groups"])
	if bad != "" {
		return c.Fail(notThere, "group '%s' does not exist", bad)
	}
	if v, ok := o.values["gid"]; ok {
		g, ok := s.groupNamed(v)
		if !ok {
			return c.Fail(notThere, "group '%s' does not exist", v)
		}
		if err := s.db.SetPrimaryGroup(u.Name, g.Name); err != nil {
			return failed(c, notThere, err)
		}
	}
	if !o.has("groups") {
		return 0, nil
	}
	for _, g := range s.db.Groups() {
		named, err := slices.Contains(groups, g.Name), error(nil)
		switch {
		case named && !o.has("remove"):
			err = s.db.AddMember(u.Name, g.Name)
		case named || !o.has("append") && !o.has("remove"):
			err = s.db.RemoveMember(u.Name, g.Name)
		}
		if err != nil {
			return failed(c, notThere, err)
		}
	}
	return 0, nil
}

// addSubordinate adds a range of ids, FIRST-LAST, to subuid(5) or subgid(5).
func addSubordinate(c *command.Call, file, user, ids string) (int, error) {
	a, b, _ := strings.Cut(ids, "-")
	from, err1 := strconv.ParseUint(a, 10, 32)
	to, err2 := strconv.ParseUint(b, 10, 32)
	if err1 != nil || err2 != nil || from > to {
		return c.Fail(badArgument, "invalid subordinate range '%s'", ids)
	}
	line := fmt.Sprintf("%s:%d:%d\n", user, from, to-from+1)
	var have []byte
	if n, err := c.Files.Stat(file); err == nil && n.Type == tree.Regular {
		if have, err = c.Files.ReadFile(file); err != nil {
			return 0, err
		}
	}
	if slices.Contains(strings.SplitAfter(string(have), "\n"), line) {
		return 0, nil
	}
	return 0, c.Files.WriteFile(file, append(have, line...), 0o644)
}

func (s commands) groupadd(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "force,f", "gid,g=", "key,K=", "password,p=", "system,r", "users,U=")
	if err == nil {
		err = password(c, o)
	}
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one group is named")
	}
	g := accounts.Group{Name: o.operands[0], Members: splitComma(o.values["users"])}
	if _, ok := s.db.Group(g.Name); ok {
		if o.has("force") {
			return 0, nil
		}
		return c.Fail(nameTaken, "group '%s' already exists", g.Name)
	}
	status, err := s.newID(c, o, "gid", s.groupTakenBy, &g.ID, &g.HasID)
	if err != nil || status != 0 && !(status == idTaken && o.has("force")) {
		return status, err
	}
	if err := s.db.AddGroup(g); err != nil {
		return failed(c, badArgument, err)
	}
	return s.changed(c)
}

func (s commands) groupdel(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "force,f")
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one group is named")
	}
	if _, ok := s.db.Group(o.operands[0]); !ok {
		return c.Fail(notThere, "group '%s' does not exist", o.operands[0])
	}
	if err := s.db.DelGroup(o.operands[0]); err != nil {
		return failed(c, 8, err)
	}
	return s.changed(c)
}

func (s commands) groupmod(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "append,a", "gid,g=", "password,p=", "users,U=")
	if err == nil {
		err = password(c, o)
	}
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one group is named")
	}
	g, ok := s.db.Group(o.operands[0])
	if !ok {
		return c.Fail(notThere, "group '%s' does not exist", o.operands[0])
	}
	if v, ok := o.values["gid"]; ok && v != strconv.FormatUint(uint64(g.ID), 10) {
		return 0, fmt.Errorf("groupmod --gid %s is not replayed: group %s keeps the id %d, which files have", v, g.Name, g.ID)
	}
	if o.has("users") {
		return s.setMembers(c, g, splitComma(o.values["users"]), o.has("append"))
	}
	return s.changed(c)
}

// setMembers gives a group a list of members, or adds them to those that it has.
func (s commands) setMembers(c *command.Call, g accounts.Group, members []string, more bool) (int, error) {
	for _, m := range members {
		if _, ok := s.db.User(m); !ok {
			return c.Fail(badArgument, "user '%s' does not exist", m)
		}
	}
	for _, m := range g.Members {
		if !more && !slices.Contains(members, m) {
			if err := s.db.RemoveMember(m, g.Name); err != nil {
				return failed(c, badArgument, err)
			}
		}
	}
	for _, m := range members {
		if err := s.db.AddMember(m, g.Name); err != nil {
			return failed(c, badArgument, err)
		}
	}
	return s.changed(c)
}

func (s commands) gpasswd(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "add,a=", "delete,d=", "members,M=", "restrict,R", "remove-password,r")
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 {
		return c.Fail(badUsage, "one group is named")
	}
	g, ok := s.db.Group(o.operands[0])
	if !ok {
		return c.Fail(badArgument, "group '%s' does not exist in /etc/group", o.operands[0])
	}
	switch {
	case o.has("add"):
		return s.setMembers(c, g, []string{o.values["add"]}, true)
	case o.has("members"):
		return s.setMembers(c, g, splitComma(o.values["members"]), false)
	case o.has("delete"):
		if !slices.Contains(g.Members, o.values["delete"]) {
			return c.Fail(badArgument, "user '%s' is not a member of '%s'", o.values["delete"], g.Name)
		}
		if err := s.db.RemoveMember(o.values["delete"], g.Name); err != nil {
			return failed(c, badArgument, err)
		}
		return s.changed(c)
	case o.has("restrict"), o.has("remove-password"):
		return 0, nil // no group has a password
	}
	return 0, fmt.Errorf("gpasswd %s asks a person for a password; it is not replayed", g.Name)
}

// passwd locks accounts, which all are; --delete leaves them locked too, since an image has no account that everybody
// can use.
func (s commands) passwd(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "delete,d", "expire,e", "inactive,i=", "lock,l", "mindays,n=", "maxdays,x=", "quiet,q",
		"warndays,w=", "status,S")
	if err != nil {
		return 0, err
	}
	name := "root"
	if len(o.operands) > 1 {
		return c.Fail(badUsage, "at most one user is named")
	} else if len(o.operands) == 1 {
		name = o.operands[0]
	}
	if err := s.db.Lock(name); err != nil {
		return failed(c, 1, err)
	}
	switch {
	case o.has("status"):
		return written(fmt.Fprintf(c.Stdout, "%s L - - - - -\n", name))
	case len(o.values) == 0 || len(o.values) == 1 && o.has("quiet"):
		return 0, fmt.Errorf("passwd %s asks a person for a password; it is not replayed", name)
	}
	return 0, nil
}

// chage keeps no date.
func (s commands) chage(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "lastday,d=", "expiredate,E=", "inactive,I=", "mindays,m=", "maxdays,M=", "warndays,W=")
	if err != nil {
		return 0, err
	}
	if len(o.operands) != 1 || len(o.values) == 0 {
		return c.Fail(badUsage, "options and one user are named")
	}
	if _, ok := s.db.User(o.operands[0]); !ok {
		return c.Fail(1, "user '%s' does not exist in /etc/passwd", o.operands[0])
	}
	return 0, nil
}

func (s commands) chsh(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "shell,s=")
	if err != nil {
		return 0, err
	}
	u, status, err := s.ownUser(c, o, "shell")
	if status != 0 || err != nil {
		return status, err
	}
	if err := s.db.SetShell(u.Name, o.values["shell"]); err != nil {
		return failed(c, 1, err)
	}
	return s.changed(c)
}

// ownUser is the user that chsh and chfn are about: the named one, or root, who runs the script.
func (s commands) ownUser(c *command.Call, o options, needs ...string) (accounts.User, int, error) {
	given := slices.ContainsFunc(needs, o.has)
	if !given {
		return accounts.User{}, 0, fmt.Errorf("%s without options asks a person; it is not replayed", c.Name)
	}
	if len(o.operands) > 1 {
		status, err := c.Fail(badUsage, "at most one user is named")
		return accounts.User{}, status, err
	}
	name := append(o.operands, "root")[0]
	u, ok := s.db.User(name)
	if !ok {
		status, err := c.Fail(1, "user '%s' does not exist", name)
		return accounts.User{}, status, err
	}
	return u, 0, nil
}

// chfn sets the parts of a comment, which have commas between them: name, room, two telephone numbers and what else
// there is.
func (s commands) chfn(_ context.Context, c *command.Call) (int, error) {
	parts := []string{"full-name", "room", "work-phone", "home-phone", "other"}
	o, err := parse(c, gnu, "full-name,f=", "room,r=", "work-phone,w=", "home-phone,h=", "other,o=", "extrausers")
	if err != nil {
		return 0, err
	}
	u, status, err := s.ownUser(c, o, parts...)
	if status != 0 || err != nil {
		return status, err
	}
	fields := append(strings.SplitN(u.Gecos, ",", len(parts)), make([]string, len(parts))...)[:len(parts)]
	for i, name := range parts {
		v, ok := o.values[name]
		if !ok {
			continue
		}
		if strings.Contains(v, ",") && name != "other" || strings.ContainsAny(v, ":=") {
			return c.Fail(1, "invalid %s: '%s'", name, v)
		}
		fields[i] = v
	}
	if fields[4] == "" {
		fields = fields[:4] // chfn(1) writes no comma for what is not there
	}
	if err := s.db.SetGecos(u.Name, strings.Join(fields, ",")); err != nil {
		return failed(c, 1, err)
	}
	return s.changed(c)
}
