package accountcmd

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
)

// Exit statuses of adduser 3.152 (Debian::AdduserRetvalues).
const (
	objectExists     = 11
	noSuchObject     = 12
	wrongProperties  = 13
	idInUse          = 21
	invalidName      = 31
	invalidHome      = 32
	groupNotEmpty    = 41
	notInGroup       = 42
	noPrimaryGroup   = 43
	invalidCall      = 51
	exclusive        = 53
	dontRemoveRoot   = 55
	systemCallFailed = 82
)

// Names that adduser takes for system accounts, for others, and with --allow-bad-names.
var (
	systemName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*\$?$`)
	personName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*\$?$`)
	badName    = regexp.MustCompile(`^[a-zA-Z0-9_.][a-zA-Z0-9_.-]*\$?$`)
)

// isSystem tells whether adduser takes an id for that of a system account: FIRST_SYSTEM_UID to LAST_SYSTEM_UID.
func isSystem(id uint32) bool { return id >= 100 && id <= 999 }

// noID is an id that was not asked for.
const noID = -1

// addition is what one call of adduser or addgroup asks for.
type addition struct {
	options
	name             string
	system, ownGroup bool
	// uid and gid are noID if they are not given.
	uid, gid int64
}

// wished tells whether an id is the one that was asked for. Numbers that Debian does not assign globally
// are those of one system; an image gives its own ones instead.
func wished(want int64, have uint32) bool {
	return want == noID || !accounts.Global(uint32(want)) || uint32(want) == have
}

func (s commands) adduser(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, perl, "add-extra-groups,add_extra_groups", "allow-all-names",
		"allow-bad-names,allow-badname,force-badname", "comment,gecos=?", "debug", "verbose", "quiet,q", "stdoutmsglevel=",
		"stderrmsglevel=", "logmsglevel=", "disabled-login", "disabled-password", "firstgid=", "firstuid=", "lastgid=",
		"lastuid=", "gid=", "group", "home=", "ingroup=", "no-create-home", "shell=", "system", "uid=")
	if err != nil {
		return 0, err
	}
	a := addition{options: o, system: o.has("system"), uid: noID, gid: noID}
	for _, id := range []struct {
		option string
		into   *int64
	}{{"uid", &a.uid}, {"gid", &a.gid}} {
		if v, ok := o.values[id.option]; ok {
			n, ok := number(v)
			if !ok {
				return c.Fail(invalidCall, "the %s %q is not a number up to %d", id.option, v, accounts.Highest)
			}
			*id.into = int64(n)
		}
	}
	group := c.Name == "addgroup"
	switch {
	case len(o.operands) == 0 || len(o.operands) > 2 || o.operands[0] == "":
		return c.Fail(invalidCall, "Only one or two names allowed.")
	case len(o.operands) == 2 && (a.system || o.has("group") || group):
		return c.Fail(invalidCall, "Specify only one name in this mode.")
	case len(o.operands) == 2:
		return s.addToGroup(c, o.operands[0], o.operands[1])
	}
	a.name = o.operands[0]
	if !a.nameAllowed() {
		return c.Fail(invalidName, "the name %.60q is not allowed; --allow-bad-names allows some", a.name)
	}
	given := 0
	for _, name := range []string{"group", "ingroup", "gid"} {
		if o.has(name) {
			given++
		}
	}
	switch {
	case !group && given > 1:
		return c.Fail(exclusive, "The --group, --ingroup, and --gid options are mutually exclusive.")
	case o.has("home") && !path.IsAbs(o.values["home"]):
		return c.Fail(invalidHome, "The home dir must be an absolute path.")
	case group || o.has("group") && !a.system:
		return s.addGroup(c, a)
	case a.system:
		a.ownGroup = o.has("group")
		return s.addSystemUser(c, a)
	}
	return s.addPerson(c, a)
}

func (a addition) nameAllowed() bool {
	form := personName
	if a.system {
		form = systemName
	}
	if a.has("allow-bad-names") || a.has("allow-all-names") {
		form = badName
	}
	digits := strings.Trim(strings.TrimPrefix(a.name, "-"), "0123456789") == ""
	return len(a.name) <= accounts.MaxName && !digits && form.MatchString(a.name) && a.name != "." && a.name != ".."
}

func (s commands) addToGroup(c *command.Call, user, group string) (int, error) {
	u, ok := s.db.User(user)
	if !ok {
		return c.Fail(noSuchObject, "The user `%s' does not exist.", user)
	}
	g, ok := s.db.Group(group)
	if !ok {
		return c.Fail(noSuchObject, "The group `%s' does not exist.", group)
	}
	if u.Group == group || slices.Contains(g.Members, user) {
		return c.Fail(0, "The user `%s' is already a member of `%s'.", user, group)
	}
	if err := s.db.AddMember(user, group); err != nil {
		return failed(c, systemCallFailed, err)
	}
	return s.changed(c)
}

func (s commands) addGroup(c *command.Call, a addition) (int, error) {
	if g, ok := s.db.Group(a.name); ok {
		switch {
		case !a.system:
			return c.Fail(objectExists, "The group `%s' already exists.", a.name)
		case !wished(a.gid, g.ID):
			return c.Fail(wrongProperties, "The group `%s' already exists, but has a different GID. Exiting.", a.name)
		case !isSystem(g.ID):
			return c.Fail(wrongProperties, "The group `%s' already exists and is not a system group. Exiting.", a.name)
		}
		return 0, nil
	}
	if a.gid != noID && s.groupTakenBy(uint32(a.gid)) != "" {
		return c.Fail(idInUse, "The GID `%d' is already in use.", a.gid)
	}
	if err := s.db.AddGroup(accounts.Group{Name: a.name, ID: uint32(max(a.gid, 0)), HasID: a.gid != noID}); err != nil {
		return failed(c, systemCallFailed, err)
	}
	return s.changed(c)
}

// addSystemUser does adduser --system: a user of group nogroup, without a home if none is named and without a
// password.
func (s commands) addSystemUser(c *command.Call, a addition) (int, error) {
	if u, ok := s.db.User(a.name); ok {
		switch {
		case !isSystem(u.ID):
			return c.Fail(wrongProperties, "The user `%s' already exists, but is not a system user. Exiting.", a.name)
		case !wished(a.uid, u.ID):
			return c.Fail(wrongProperties, "The user `%s' already exists with a different UID. Exiting.", a.name)
		}
		return 0, nil
	}
	if a.uid != noID && s.takenBy(uint32(a.uid)) != "" {
		return c.Fail(wrongProperties, "The user `%s' already exists with a different UID. Exiting.", a.name)
	}
	u := a.user("/nonexistent", "/usr/sbin/nologin")
	if status, err := s.primaryGroup(c, a, &u, "nogroup"); status != 0 || err != nil {
		return status, err
	}
	if err := s.db.AddUser(u); err != nil {
		return failed(c, systemCallFailed, err)
	}
	if err := s.makeHome(c, a.name, home{mode: 0o755, unwanted: a.has("no-create-home")}); err != nil {
		return 0, err
	}
	return s.changed(c)
}

// addPerson does adduser without --system. Its account has an id of the same range as the others, and is in group
// users.
func (s commands) addPerson(c *command.Call, a addition) (int, error) {
	if _, ok := s.db.User(a.name); ok {
		return c.Fail(objectExists, "The user `%s' already exists.", a.name)
	}
	if !a.has("disabled-password") && !a.has("disabled-login") {
		return 0, fmt.Errorf("adduser %s asks a person for a password; scripts give --system or --disabled-password", a.name)
	}
	if a.uid != noID && s.takenBy(uint32(a.uid)) != "" {
		return c.Fail(idInUse, "The UID %d is already in use.", a.uid)
	}
	shell := "/bin/bash"
	if a.has("disabled-login") {
		shell = "/usr/sbin/nologin"
	}
	u := a.user("/home/"+a.name, shell)
	a.ownGroup = !a.has("ingroup") && a.gid == noID
	if _, ok := s.db.Group(a.name); a.ownGroup && ok {
		return c.Fail(objectExists, "The group `%s' already exists.", a.name)
	}
	if status, err := s.primaryGroup(c, a, &u, ""); status != 0 || err != nil {
		return status, err
	}
	if err := s.db.AddUser(u); err != nil {
		return failed(c, systemCallFailed, err)
	}
	h := home{mode: 0o700, unwanted: a.has("no-create-home"), skeleton: defaultSkeleton}
	if err := s.makeHome(c, a.name, h); err != nil {
		return 0, err
	}
	if u.Group != "users" {
		if err := s.db.AddMember(a.name, "users"); err != nil {
			return failed(c, systemCallFailed, err)
		}
	}
	return s.changed(c)
}

func (a addition) user(home, shell string) accounts.User {
	return accounts.User{
		Name: a.name, ID: uint32(max(a.uid, 0)), HasID: a.uid != noID, Gecos: a.values["comment"],
		Home: cmp.Or(a.values["home"], home), Shell: cmp.Or(a.values["shell"], shell),
	}
}

// primaryGroup finds or makes the primary group of a new user. A status that is not 0 is a failure.
func (s commands) primaryGroup(c *command.Call, a addition, u *accounts.User, otherwise string) (int, error) {
	switch {
	case a.gid != noID:
		if u.Group = s.groupTakenBy(uint32(a.gid)); u.Group == "" {
			return c.Fail(noSuchObject, "No group with GID %d found.", a.gid)
		}
	case a.has("ingroup"):
		u.Group = a.values["ingroup"]
		if _, ok := s.db.Group(u.Group); !ok {
			return c.Fail(noSuchObject, "The group `%s' does not exist.", u.Group)
		}
	case a.ownGroup:
		if a.uid == noID {
			return 0, nil // AddUser finds or makes it
		}
		u.Group = a.name
		if _, ok := s.db.Group(a.name); ok {
			return 0, nil
		}
		if err := s.db.AddGroup(accounts.Group{Name: a.name, ID: uint32(a.uid), HasID: true}); err != nil {
			return failed(c, systemCallFailed, err)
		}
	default:
		u.Group = otherwise
		if _, ok := s.db.Group(otherwise); !ok {
			return c.Fail(noSuchObject, "The group `%s' does not exist.", otherwise)
		}
	}
	return 0, nil
}

func (s commands) deluser(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, perl, "debug", "verbose", "quiet,q", "stdoutmsglevel=", "stderrmsglevel=", "logmsglevel=", "group",
		"system", "only-if-empty", "remove-home")
	if err != nil {
		return 0, err
	}
	switch {
	case len(o.operands) == 0 || len(o.operands) > 2 || o.operands[0] == "":
		return c.Fail(invalidCall, "Only one or two names allowed.")
	case len(o.operands) == 2:
		return s.delFromGroup(c, o.operands[0], o.operands[1])
	case c.Name == "delgroup" || o.has("group"):
		return s.delGroup(c, o, o.operands[0])
	}
	return s.delUser(c, o, o.operands[0])
}

func (s commands) delFromGroup(c *command.Call, user, group string) (int, error) {
	u, ok := s.db.User(user)
	if !ok {
		return c.Fail(noSuchObject, "The user `%s' does not exist.", user)
	}
	g, ok := s.db.Group(group)
	switch {
	case !ok:
		return c.Fail(noSuchObject, "The group `%s' does not exist.", group)
	case u.Group == group:
		return c.Fail(noPrimaryGroup, "You may not remove the user from their primary group.")
	case !slices.Contains(g.Members, user):
		return c.Fail(notInGroup, "The user `%s' is not a member of group `%s'.", user, group)
	}
	if err := s.db.RemoveMember(user, group); err != nil {
		return failed(c, systemCallFailed, err)
	}
	return s.changed(c)
}

func (s commands) delGroup(c *command.Call, o options, name string) (int, error) {
	g, ok := s.db.Group(name)
	switch {
	case !ok && o.has("system"):
		return c.Fail(0, "The group `%s' does not exist.", name)
	case !ok:
		return c.Fail(noSuchObject, "The group `%s' does not exist.", name)
	case o.has("system") && !isSystem(g.ID):
		return c.Fail(wrongProperties, "The group `%s' is not a system group. Exiting.", name)
	case o.has("only-if-empty") && len(g.Members) > 0:
		return c.Fail(groupNotEmpty, "The group `%s' is not empty!", name)
	}
	if err := s.db.DelGroup(name); err != nil {
		return failed(c, systemCallFailed, err)
	}
	return s.changed(c)
}

func (s commands) delUser(c *command.Call, o options, name string) (int, error) {
	u, ok := s.db.User(name)
	switch {
	case !ok && o.has("system"):
		return 0, nil
	case !ok:
		return c.Fail(noSuchObject, "The user `%s' does not exist.", name)
	case o.has("system") && !isSystem(u.ID):
		return c.Fail(wrongProperties, "The user `%s' is not a system user. Exiting.", name)
	case u.ID == 0:
		return c.Fail(dontRemoveRoot, "root is not removed")
	}
	if o.has("remove-home") {
		if err := removeHome(c, u); err != nil {
			return 0, err
		}
	}
	if err := s.remove(u); err != nil {
		return failed(c, systemCallFailed, err)
	}
	return s.changed(c)
}

// remove takes away a user and, as USERGROUPS_ENAB of login.defs(5) says, its primary group if that has the same
// name and nobody else is in it.
func (s commands) remove(u accounts.User) error {
	if err := s.db.DelUser(u.Name); err != nil {
		return err
	}
	g, ok := s.db.Group(u.Name)
	if !ok || g.Name != u.Group || len(g.Members) > 0 {
		return nil
	}
	for _, other := range s.db.Users() {
		if other.Group == g.Name {
			return nil
		}
	}
	return s.db.DelGroup(g.Name)
}
