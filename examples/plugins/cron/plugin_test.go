package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func job(settings sdk.Settings, created time.Time) sdk.Job {
	j := sdktest.Job("clean", "cron")
	j.Settings, j.Created = settings, created
	return j
}

// keys returns the keys of slots, those that are held in brackets.
func keys(s sdktest.Slots) []string {
	var out []string
	for _, slot := range s.Slots {
		key := string(slot.Key)
		if slot.Held != nil {
			key = "[" + key + "]"
		}
		out = append(out, key)
	}
	return out
}

func expect(t *testing.T, what string, got sdktest.Slots, want ...string) {
	t.Helper()
	if got.Stall != nil || got.Failure != nil {
		t.Errorf("%s: %v %v", what, got.Stall, got.Failure)
	}
	if diff := cmp.Diff(want, keys(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRunsComeAndGoWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight of 2000-01-01 UTC
		h := sdktest.New(t, New(time.Now))
		h.SetNodes(sdktest.Node("n1"))
		time.Sleep(90 * time.Second)
		expect(t, "at 0:01:30", h.AddJob(job(`{"schedule":"*/10 * * * *","history":2}`, time.Now())))
		for _, step := range []struct {
			sleep time.Duration
			want  []string
		}{
			{8*time.Minute + 29*time.Second, nil},
			{time.Second, []string{"2000-01-01T00:10Z"}},
			{10 * time.Minute, []string{"2000-01-01T00:10Z", "2000-01-01T00:20Z"}},
			{10 * time.Minute, []string{"2000-01-01T00:20Z", "2000-01-01T00:30Z"}},
		} {
			time.Sleep(step.sleep)
			synctest.Wait()
			expect(t, "at "+time.Now().Format(time.TimeOnly), h.Slots("clean"), step.want...)
		}
		if got := h.SlotMessages("clean"); got != 4 {
			t.Errorf("%d answers in 30 minutes, want one for each change", got)
		}
	})
}

func TestLateRunsAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sdktest.New(t, New(time.Now))
		h.SetNodes()
		// Made the day before: the plugin, or the whole server, was away since then.
		expect(t, "at 0:00", h.AddJob(job(`{"schedule":"0 */6 * * *","start_within":"5m"}`, time.Now().Add(-24*time.Hour))),
			"[1999-12-31T12:00Z]", "[1999-12-31T18:00Z]", "2000-01-01T00:00Z")
		if s := h.Slots("clean").Slots[1].Held; s.Code != "cron.missed" || s.Message != "the run was due at 1999-12-31T18:00:00Z and did not complete in time to be started again" ||
			s.Detail != "start_within = 5m0s" || s.Clears != "it is no longer among the latest 3 runs" {
			t.Errorf("held by %v", s)
		}
		time.Sleep(5*time.Minute + time.Nanosecond)
		synctest.Wait()
		expect(t, "at 0:05", h.Slots("clean"), "[1999-12-31T12:00Z]", "[1999-12-31T18:00Z]", "[2000-01-01T00:00Z]")
	})
}

func TestRunsEndAndMayBeAnywhere(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 9, 14, 3, 0, 30, 0, time.UTC) }
	h := sdktest.New(t, New(now))
	h.SetNodes(sdktest.Node("n1"))
	got := h.AddJob(job(`{"schedule":"0 5 * * *","time_zone":"Europe/Paris"}`, now().Add(-time.Hour)))
	if diff := cmp.Diff([]sdktest.Slot{{Key: "2026-09-14T03:00Z", Ends: true}}, got.Slots); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
}

func TestJobsAreCheckedAtSubmit(t *testing.T) {
	h := sdktest.New(t, New(time.Now))
	for _, test := range []struct {
		settings sdk.Settings
		want     []string
	}{
		{`{"schedule":"0 3 * * *"}`, nil},
		{`{"schedule":"0 3 30 2 *"}`, []string{`schedule: "0 3 30 2 *" never comes`}},
		{`{"schedule":"3 o'clock","time_zone":"Paris","history":0,"start_within":"90s"}`, []string{
			`schedule: "3 o'clock" is no schedule`, `time_zone: "Paris" is no time zone`, `history: history 0 is not within 1 and 100`,
			`start_within: start_within 1m30s is no number of whole minutes`,
		}},
		{`{}`, []string{`schedule: "schedule" is required`}},
		{`{"schedule":"@daily","start_in":"1h"}`, []string{`start_in: unknown setting "start_in"`}},
	} {
		var got []string
		for _, d := range h.Validate(sdk.CompileRequest{JobType: "cron", Settings: test.settings}) {
			got = append(got, d.Path[0].GetAttribute()+": "+d.Summary)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.settings, diff)
		}
	}
}

func TestConformance(t *testing.T) {
	now := time.Date(2026, 9, 14, 3, 0, 30, 0, time.UTC)
	named := func(name string, settings sdk.Settings) sdk.Job {
		j := job(settings, now.Add(-30*24*time.Hour))
		j.Name = name
		return j
	}
	sdktest.Conformance(t, func() sdk.Plugin { return New(func() time.Time { return now }) }, sdktest.Cases{Jobs: []sdk.Job{
		named("each-minute", `{"schedule":"* * * * *","history":100}`), named("monthly", `{"schedule":"@monthly","time_zone":"Asia/Tokyo"}`),
		named("missed", `{"schedule":"@daily","start_within":"1h"}`), {Name: "silent", Type: "cron"},
		{Name: "ageless", Type: "cron", Settings: `{"schedule":"0 0 29 2 *"}`},
	}})
}
