package clock

import (
	"time"

	"spore/storage/atomicfile"
)

// State is what the clock of this boot is worth (paths.TimeState).
type State struct {
	// Synchronized says that a time server keeps the clock.
	Synchronized bool `json:"synchronized"`
	// From is the address of the server that is asked, once it has answered.
	From string `json:"from,omitempty"`
	// By is the program that keeps the clock, where it does not say of which server it has the time: chrony.
	By string `json:"by,omitempty"`
	// Wrong says that the clock could not be right when the machine started, and that no server has set it since: dates that are
	// made now may lie years back.
	Wrong bool `json:"wrong,omitempty"`
	// Problem says why the clock is not kept, once that takes long.
	Problem string `json:"problem,omitempty"`
}

// ReadState reads the state that spore-agent wrote; the zero State when there is none.
func ReadState(path string) (s State, err error) {
	err = atomicfile.ReadJSON(path, &s)
	return s, err
}

// slightly is by how much a clock may lie before what is known to be past and be as good as any: that of a machine that was
// started again at once, whose battery-backed clock counts seconds.
const slightly = 10 * time.Minute

// FarOff tells whether a clock that has to be set to the floor is no clock at all, rather than one that is a little slow.
func FarOff(now, floor time.Time) bool { return Wrong(now, floor) && Wrong(now.Add(slightly), floor) }

// maxUnconfirmed bounds how far a clock that no server keeps moves the last time seen in one boot. One that stands years ahead must
// not become the floor of all boots to come: everything would have ended for good. Certificates are renewed when they have longer than
// this to live. A clock that is right, on a node that was off for longer, loses nothing: the floor is only a bound.
const maxUnconfirmed = 90 * 24 * time.Hour

// Believed is the latest time that a clock which no server keeps is believed in a boot that began with a floor.
func Believed(floor time.Time) time.Time { return floor.Add(maxUnconfirmed) }
