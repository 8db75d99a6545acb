package main

import (
	"context"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Settings is what a job says in its plugin "cron" block.
type Settings struct {
	Schedule    string        `setpoint:"schedule,required" desc:"When it runs: minute, hour, day of month, month and day of week, as cron has them, or @daily and the like."`
	TimeZone    string        `setpoint:"time_zone" desc:"Whose clocks the schedule means, such as Europe/Paris." default:"UTC"`
	History     int           `setpoint:"history" desc:"How many of the latest runs are kept; an older one that still runs is stopped." default:"3"`
	StartWithin time.Duration `setpoint:"start_within" desc:"How late a run may start, restarts included; 0s: for as long as it is kept." default:"0s"`
}

const (
	maxHistory = 100
	// keyLayout writes a run's time as the key of its slot.
	keyLayout = "2006-01-02T15:04Z"
	// longestWait is how far apart two times of any schedule are at most: eight years, between two 29ths of February around the year 2100.
	longestWait = 9 * 365 * 24 * time.Hour
)

// New returns the plugin. now is the wall clock.
func New(now func() time.Time) sdk.Plugin {
	return sdk.Plugin{Name: "cron", Version: "1.0.0", JobTypes: map[string]sdk.JobType{"cron": cron{now}}, Job: sdk.SchemaOf[Settings]()}
}

type cron struct{ now func() time.Time }

// plan is what a job's settings mean.
type plan struct {
	schedule
	zone        *time.Location
	history     int
	startWithin time.Duration
}

// Validate finds all that is wrong with a job's settings.
func (cron) Validate(_ context.Context, req sdk.CompileRequest) error {
	_, err := read(req.Settings)
	return err
}

// Slots names a slot for each of the latest runs since the job was made: a pure function of the job and the time, so that a plugin that was started anew says
// the same. A run that completed stays completed for as long as its slot is named.
func (c cron) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	p, err := read(req.Job.Settings)
	if err != nil {
		return sdk.SlotsResponse{}, &sdk.Stall{Code: "bad_settings", Message: err.Error(), Clears: "the job's settings are corrected"}
	}
	now := c.now().In(p.zone)
	since := req.Job.Created
	if oldest := now.Add(-longestWait); since.Before(oldest) {
		since = oldest
	}
	var out sdk.SlotsResponse
	for at := p.latest(now, since); !at.IsZero() && len(out.Slots) < p.history; at = p.latest(at.Add(-time.Minute), since) {
		slot := sdk.Slot{Key: cluster.SlotKey(at.UTC().Format(keyLayout)), Ends: true}
		if late := now.Sub(at); p.startWithin > 0 && late >= p.startWithin {
			slot.Held = &sdk.Stall{
				Code: "missed", Message: fmt.Sprintf("the run was due at %s and did not complete in time to be started again", at.Format(time.RFC3339)),
				Detail: "start_within = " + p.startWithin.String(), Clears: fmt.Sprintf("it is no longer among the latest %d runs", p.history),
			}
		}
		out.Slots = append(out.Slots, slot)
	}
	// Once a minute, as schedules count in minutes, rather than at the next run: so that a wall clock that was set is noticed. What is unchanged costs nothing.
	out.Again = now.Truncate(time.Minute).Add(time.Minute).Sub(now)
	return out, nil
}

// read returns what the settings mean, or sdk.Diagnostics as error.
func read(settings sdk.Settings) (plan, error) {
	var s Settings
	if err := settings.Decode(&s); err != nil {
		return plan{}, err
	}
	var wrong sdk.Diagnostics
	p := plan{history: s.History, startWithin: s.StartWithin}
	var err error
	if p.schedule, err = parseSchedule(s.Schedule); err != nil {
		wrong.Add(sdk.At("schedule"), fmt.Sprintf("%q is no schedule", s.Schedule), err.Error())
	} else if someDay := time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC); p.latest(someDay, someDay.Add(-longestWait)).IsZero() {
		wrong.Add(sdk.At("schedule"), fmt.Sprintf("%q never comes", s.Schedule), "No month that it names has such a day.")
	}
	if p.zone, err = time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		wrong.Add(sdk.At("time_zone"), fmt.Sprintf("%q is no time zone", s.TimeZone), "Zones have names such as UTC or Europe/Paris.")
	}
	if s.History < 1 || s.History > maxHistory {
		wrong.Add(sdk.At("history"), fmt.Sprintf("history %d is not within 1 and %d", s.History, maxHistory), "")
	}
	if s.StartWithin < 0 || s.StartWithin%time.Minute != 0 {
		wrong.Add(sdk.At("start_within"), fmt.Sprintf("start_within %s is no number of whole minutes", s.StartWithin), "")
	}
	return p, wrong.Err()
}
