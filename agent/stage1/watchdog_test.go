package main

import (
	"errors"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/kcmdline"
	"spore/agent/watchdog"
)

// board is a machine whose devices have these modaliases, each with the driver that it wants; one driver may make
// another device.
type board struct {
	sys     fstest.MapFS
	drivers map[string]string
	makes   map[string]fstest.MapFS
	fails   map[string]error
	loaded  []string
}

func (b *board) match(modalias string) []string {
	if d, ok := b.drivers[modalias]; ok {
		return []string{d}
	}
	return nil
}

func (b *board) load(name string) error {
	b.loaded = append(b.loaded, name)
	maps.Copy(b.sys, b.makes[name])
	return b.fails[name]
}

func TestTheBridgesOfTheMainboardComeAfterAllOtherWatchdogs(t *testing.T) {
	device := func(bus, name, modalias string) fstest.MapFS {
		return fstest.MapFS{"bus/" + bus + "/devices/" + name + "/modalias": file(modalias + "\n")}
	}
	drivers := map[string]string{"pci:esb": "i6300esb", "pci:lpc": "lpc_ich", "pci:smbus": "i2c_i801", "platform:iTCO_wdt": "iTCO_wdt", "platform:wdat_wdt": "wdat_wdt"}
	makes := map[string]fstest.MapFS{"lpc_ich": device("platform", "iTCO_wdt.1", "platform:iTCO_wdt")}
	lpc, smbus := device("pci", "0000:00:1f.0", "pci:lpc"), device("pci", "0000:00:1f.4", "pci:smbus")
	for name, c := range map[string]struct {
		devices []fstest.MapFS
		fails   map[string]error
		loaded  []string
		err     string
	}{
		"no device at all":                   {nil, nil, nil, ""},
		"a device of another kind":           {[]fstest.MapFS{device("pci", "0000:00:02.0", "pci:vga")}, nil, nil, ""},
		"a card and a mainboard":             {[]fstest.MapFS{device("pci", "0000:00:03.0", "pci:esb"), lpc, smbus}, nil, []string{"i6300esb"}, ""},
		"what the firmware describes":        {[]fstest.MapFS{lpc, device("platform", "wdat_wdt", "platform:wdat_wdt")}, nil, []string{"wdat_wdt"}, ""},
		"a mainboard alone":                  {[]fstest.MapFS{lpc, smbus}, nil, []string{"lpc_ich", "i2c_i801", "iTCO_wdt"}, ""},
		"a card that fails, and a mainboard": {[]fstest.MapFS{device("pci", "0000:00:03.0", "pci:esb"), lpc}, map[string]error{"i6300esb": errors.New("no such device")}, []string{"i6300esb", "lpc_ich", "i6300esb", "iTCO_wdt"}, "no such device"},
		"a bridge that fails":                {[]fstest.MapFS{lpc, smbus}, map[string]error{"i2c_i801": errors.New("busy")}, []string{"lpc_ich", "i2c_i801", "iTCO_wdt"}, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &board{sys: fstest.MapFS{}, drivers: drivers, makes: makes, fails: c.fails}
			for _, d := range c.devices {
				maps.Copy(b.sys, d)
			}
			there := func() bool {
				for _, name := range b.loaded {
					if b.fails[name] == nil && name != "lpc_ich" && name != "i2c_i801" {
						return true
					}
				}
				return false
			}
			err := watchdogDrivers{match: b.match, load: b.load}.find(b.sys, there)
			require.Equal(t, c.loaded, b.loaded)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestNobodyOpensAWatchdogThatIsToBeLeftAlone(t *testing.T) {
	b := &boot{args: kcmdline.Args{Watchdog: -1}}
	text, err := b.startWatchdog()
	require.NoError(t, err)
	require.Contains(t, text, "leaves the hardware watchdog alone")
	require.Nil(t, b.watched)
	_, err = b.handOverWatchdog()
	require.NoError(t, err)
}

func TestADriverThatHangsDoesNotHoldTheStart(t *testing.T) {
	b := &boot{watched: make(chan struct{})}
	began := time.Now()
	text, err := b.handOverWatchdog()
	require.NoError(t, err)
	require.Contains(t, text, "takes its time")
	require.Less(t, time.Since(began), 10*watchdogPatience)
}

// device is a watchdog that is fed and counts nothing.
type device struct{ released bool }

func (d *device) SetTimeout(t time.Duration) (time.Duration, error) { return t, nil }
func (d *device) Feed() error                                       { return nil }
func (d *device) Release() error                                    { d.released = true; return nil }

func TestTheWatchdogIsLeftToSystemd(t *testing.T) {
	b := &boot{watched: make(chan struct{}), guard: watchdog.NewGuard(sinceBoot, func(string) {})}
	d := &device{}
	_, err := b.guard.Feed(d, time.Hour)
	require.NoError(t, err)
	close(b.watched)
	_, err = b.handOverWatchdog()
	require.NoError(t, err)
	require.True(t, d.released)
}

func TestEachStepAndEachRoundOfAWaitIsASignOfLife(t *testing.T) {
	var at time.Duration
	var told []time.Duration
	clock := func() time.Duration { told = append(told, at); return at }
	b := &boot{guard: watchdog.NewGuard(clock, func(string) {})}
	told = nil
	tick := func() (string, error) { at += time.Minute; return "", nil }
	_ = b.run([]step{{"one", tick}, {"two", tick}, {"three", tick}})
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, told)
}
