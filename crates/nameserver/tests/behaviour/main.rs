//! How queries are answered: policy, kept answers, views, pools and response policy zones.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

mod asked;
mod changes_of_the_policy;
mod choices;
mod costly_names;
mod dns64;
mod hosted_zones;
mod kept;
mod logged_decisions;
mod long_answers;
mod own_names_behind_aliases;
mod parts_of_the_state;
mod policy;
mod policy_model;
mod pools;
mod replaced_lists;
mod rpz;
mod rule_table;
mod what_answers_lead_to;
mod zone_views;
