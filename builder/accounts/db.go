package accounts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// DB holds the accounts of one image. It is for one goroutine at a time.
type DB struct {
	fixed      *Table
	locked     *Locked
	users      map[string]*User
	groups     map[string]*Group
	uids, gids *numbers
}

// New returns the accounts that an image has before any script runs: the rows of the fixed table that are in every
// image and those of programs. A nil lock is an empty one.
func New(fixed *Table, locked *Locked, programs ...string) *DB {
	if locked == nil {
		locked = &Locked{}
	}
	db := &DB{
		fixed: fixed, locked: locked, users: map[string]*User{}, groups: map[string]*Group{},
		uids: newNumbers("user", fixed.uid, locked.Users), gids: newNumbers("group", fixed.gid, locked.Groups),
	}
	db.AddRows("base")
	for _, p := range programs {
		db.AddRows("program:" + p)
	}
	return db
}

// AddRows adds the rows of the fixed table with this entry in their last field, such as "base", "program:etcd" or
// "deb:chrony", and the primary groups of their users. What is there stays as it is.
func (db *DB) AddRows(from string) {
	in := map[string]bool{}
	for _, r := range db.fixed.users {
		if !slices.Contains(r.from, from) {
			continue
		}
		in[r.group] = true
		if db.users[r.name] == nil {
			db.users[r.name] = &User{
				Name: r.name, ID: r.id, HasID: true, Group: r.group, Gecos: r.gecos, Home: r.home, Shell: r.shell,
			}
		}
	}
	for _, r := range db.fixed.groups {
		if (in[r.name] || slices.Contains(r.from, from)) && db.groups[r.name] == nil {
			db.groups[r.name] = &Group{Name: r.name, ID: r.id, HasID: true, Members: slices.Clone(r.members)}
		}
	}
}

// AddUser adds a user, and the group of the same name if no group is named. An id that is wished for is kept when it
// is one of Debian's global ids and no other name has it.
func (db *DB) AddUser(u User) error {
	u.Home, u.Shell = cmp.Or(u.Home, "/nonexistent"), cmp.Or(u.Shell, "/usr/sbin/nologin")
	if err := u.check(); err != nil {
		return err
	}
	if db.users[u.Name] != nil {
		return fmt.Errorf("user %s %w", u.Name, ErrExists)
	}
	group := cmp.Or(u.Group, u.Name)
	if u.Group != "" && db.groups[group] == nil {
		return fmt.Errorf("group %s, which user %s is to have, %w", group, u.Name, ErrNotFound)
	}
	id, err := db.uids.choose(u.Name, u.ID, u.HasID, db.gids)
	if err != nil {
		return err
	}
	if db.groups[group] == nil {
		if err := db.AddGroup(Group{Name: group}); err != nil {
			return err
		}
	}
	u.ID, u.HasID, u.Group = id, true, group
	db.users[u.Name] = &u
	return nil
}

// AddGroup adds a group; its id is chosen as that of a user.
func (db *DB) AddGroup(g Group) error {
	if err := checkName(g.Name); err != nil {
		return err
	}
	if db.groups[g.Name] != nil {
		return fmt.Errorf("group %s %w", g.Name, ErrExists)
	}
	for _, m := range g.Members {
		if err := db.hasUser(m); err != nil {
			return err
		}
	}
	id, err := db.gids.choose(g.Name, g.ID, g.HasID, db.uids)
	if err != nil {
		return err
	}
	g.ID, g.HasID, g.Members = id, true, slices.Clone(g.Members)
	db.groups[g.Name] = &g
	return nil
}

// DelUser removes a user, from groups too. Its primary group stays. The name keeps its id.
func (db *DB) DelUser(name string) error {
	if err := db.hasUser(name); err != nil {
		return err
	}
	if db.users[name].ID == 0 {
		return fmt.Errorf("to remove user %s %w", name, ErrInvalid)
	}
	delete(db.users, name)
	for _, g := range db.groups {
		g.Members = without(g.Members, name)
	}
	return nil
}

// DelGroup removes a group that is the primary group of no user. The name keeps its id.
func (db *DB) DelGroup(name string) error {
	if err := db.hasGroup(name); err != nil {
		return err
	}
	for _, u := range db.Users() {
		if u.Group == name {
			return fmt.Errorf("group %s %w of user %s", name, ErrInUse, u.Name)
		}
	}
	if db.groups[name].ID == 0 {
		return fmt.Errorf("to remove group %s %w", name, ErrInvalid)
	}
	delete(db.groups, name)
	return nil
}

// AddMember puts a user into a group; one that is in it stays where it is in the list.
func (db *DB) AddMember(user, group string) error {
	if err := db.both(user, group); err != nil {
		return err
	}
	if g := db.groups[group]; !slices.Contains(g.Members, user) {
		g.Members = append(g.Members, user)
	}
	return nil
}

// RemoveMember takes a user out of a group; a user that is not in it stays out.
func (db *DB) RemoveMember(user, group string) error {
	if err := db.both(user, group); err != nil {
		return err
	}
	g := db.groups[group]
	g.Members = without(g.Members, user)
	return nil
}

// SetPrimaryGroup gives a user another primary group.
func (db *DB) SetPrimaryGroup(user, group string) error {
	if err := db.both(user, group); err != nil {
		return err
	}
	db.users[user].Group = group
	return nil
}

// SetShell gives a user another shell.
func (db *DB) SetShell(user, shell string) error {
	return db.set(user, func(u *User) { u.Shell = shell })
}

// SetHome gives a user another home; no file is moved.
func (db *DB) SetHome(user, home string) error { return db.set(user, func(u *User) { u.Home = home }) }

// SetGecos gives a user another comment.
func (db *DB) SetGecos(user, gecos string) error {
	return db.set(user, func(u *User) { u.Gecos = gecos })
}

// Lock is for a user whose password is to be locked: all are, so it checks that the user exists.
func (db *DB) Lock(user string) error { return db.hasUser(user) }

func (db *DB) set(name string, change func(u *User)) error {
	if err := db.hasUser(name); err != nil {
		return err
	}
	u := *db.users[name]
	change(&u)
	if err := u.check(); err != nil {
		return err
	}
	db.users[name] = &u
	return nil
}

func (db *DB) both(user, group string) error {
	if err := db.hasUser(user); err != nil {
		return err
	}
	return db.hasGroup(group)
}

func (db *DB) hasUser(name string) error {
	if db.users[name] == nil {
		return fmt.Errorf("user %.60s %w", name, ErrNotFound)
	}
	return nil
}

func (db *DB) hasGroup(name string) error {
	if db.groups[name] == nil {
		return fmt.Errorf("group %.60s %w", name, ErrNotFound)
	}
	return nil
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(list, func(have string) bool { return have == s })
}

// User returns a user of the image.
func (db *DB) User(name string) (User, bool) {
	u := db.users[name]
	if u == nil {
		return User{}, false
	}
	return *u, true
}

// Group returns a group of the image.
func (db *DB) Group(name string) (Group, bool) {
	g := db.groups[name]
	if g == nil {
		return Group{}, false
	}
	out := *g
	out.Members = slices.Clone(g.Members)
	return out, true
}

// Users returns all users, sorted by id.
func (db *DB) Users() []User {
	out := make([]User, 0, len(db.users))
	for _, u := range db.users {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b User) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Groups returns all groups, sorted by id.
func (db *DB) Groups() []Group {
	out := make([]Group, 0, len(db.groups))
	for name := range db.groups {
		g, _ := db.Group(name)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// UserID returns the id of a user.
func (db *DB) UserID(name string) (uint32, bool) {
	u, ok := db.User(name)
	return u.ID, ok
}

// GroupID returns the id of a group.
func (db *DB) GroupID(name string) (uint32, bool) {
	g := db.groups[name]
	if g == nil {
		return 0, false
	}
	return g.ID, true
}

// UserName returns the name of an id, or the id in decimal if no user has it, as ls and stat print it.
func (db *DB) UserName(id uint32) string {
	if name, ok := db.uids.names[id]; ok && db.users[name] != nil {
		return name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// GroupName is UserName for groups.
func (db *DB) GroupName(id uint32) string {
	if name, ok := db.gids.names[id]; ok && db.groups[name] != nil {
		return name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Owned reports whether the image has a user and a group with these ids: a file of other ones would belong to whoever
// gets them one day.
func (db *DB) Owned(uid, gid uint32) bool {
	return db.users[db.uids.names[uid]] != nil && db.groups[db.gids.names[gid]] != nil
}

// PrimaryGroup returns the id of a user's primary group.
func (db *DB) PrimaryGroup(user string) (uint32, bool) {
	u, ok := db.User(user)
	if !ok {
		return 0, false
	}
	return db.GroupID(u.Group)
}

// Fresh returns the ids of the image that neither the table nor the lock has.
func (db *DB) Fresh() *Locked {
	out := &Locked{Users: map[string]uint32{}, Groups: map[string]uint32{}}
	for name, id := range db.uids.fresh {
		if db.users[name] != nil {
			out.Users[name] = id
		}
	}
	for name, id := range db.gids.fresh {
		if db.groups[name] != nil {
			out.Groups[name] = id
		}
	}
	return out
}

// All returns what the lock is to hold: what it holds, since files carry the ids of packages that are gone too, and
// the fresh ids.
func (db *DB) All() *Locked {
	out := db.Fresh()
	maps.Copy(out.Users, db.locked.Users)
	maps.Copy(out.Groups, db.locked.Groups)
	return out
}
