BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE fastrcaps_epochs (
	study_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	run INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	token INTEGER NOT NULL,
	worker VARCHAR(128) NOT NULL,
	batch_size INTEGER NOT NULL,
	lr_start FLOAT NOT NULL,
	lr_end FLOAT NOT NULL,
	loss FLOAT NOT NULL,
	classification_loss FLOAT NOT NULL,
	reconstruction_loss FLOAT NOT NULL,
	training_accuracy FLOAT NOT NULL,
	accuracy FLOAT NOT NULL,
	training_seconds FLOAT NOT NULL,
	evaluation_seconds FLOAT NOT NULL,
	steps INTEGER NOT NULL,
	samples INTEGER NOT NULL,
	device VARCHAR(64) NOT NULL,
	device_name VARCHAR(256) NOT NULL,
	torch_version VARCHAR(64) NOT NULL,
	precision VARCHAR(16) NOT NULL,
	threads INTEGER NOT NULL,
	kernel VARCHAR(64) NOT NULL,
	sharing INTEGER NOT NULL,
	PRIMARY KEY (study_id, number, run, epoch)
);
INSERT INTO "fastrcaps_epochs" VALUES(1,0,0,1,1,'worker-1',16,0.001,0.001,2.29475283622741699218e+00,2.29475283622741699218e+00,0.0,0.140625,0.1,5.15589480000926414504e-02,0.0964340650007216,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',2);
INSERT INTO "fastrcaps_epochs" VALUES(1,0,0,2,1,'worker-1',16,0.001,0.001,2.27458435297012329101e+00,2.27458435297012329101e+00,0.0,0.140625,0.1,4.80463500007317634299e-02,8.3807506000084686093e-02,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',2);
INSERT INTO "fastrcaps_epochs" VALUES(1,1,0,1,1,'worker-0',16,0.001,0.000999938768882921,2.29475277662277221679e+00,2.29475277662277221679e+00,0.0,0.140625,0.1,3.7630266999258310534e-02,8.77694689988857135176e-02,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',2);
INSERT INTO "fastrcaps_epochs" VALUES(1,2,0,1,1,'worker-1',16,0.0001,0.00085,2.29379409551620483398e+00,2.29379409551620483398e+00,0.0,0.140625,0.1,2.94968219986913027241e-02,7.69708719999471213668e-02,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',2);
INSERT INTO "fastrcaps_epochs" VALUES(1,1,0,2,1,'worker-0',16,9.99918359343739257191e-04,0.000999857133225609,2.27458500862121582031e+00,2.27458500862121582031e+00,0.0,0.140625,0.1,0.041810118000285,7.21973149993573315441e-02,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',2);
INSERT INTO "fastrcaps_epochs" VALUES(1,2,0,2,1,'worker-1',16,9.00000000000000083787e-04,1.50000000000000068174e-04,2.28404909372329711914e+00,2.28404909372329711914e+00,0.0,0.140625,0.1,3.6852976001682691276e-02,9.18255830001726280897e-02,4,64,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',1);
CREATE TABLE fastrcaps_leases (
	study_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	token INTEGER NOT NULL,
	worker VARCHAR(128) NOT NULL,
	host VARCHAR(256) NOT NULL,
	boot_id VARCHAR(64) NOT NULL,
	pid_namespace VARCHAR(64) NOT NULL,
	pid INTEGER NOT NULL,
	process_start INTEGER NOT NULL,
	device VARCHAR(64) NOT NULL,
	claimed_at FLOAT NOT NULL,
	PRIMARY KEY (study_id, number)
);
CREATE TABLE fastrcaps_runs (
	study_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	run INTEGER NOT NULL,
	seed INTEGER NOT NULL,
	device VARCHAR(64) NOT NULL,
	device_name VARCHAR(256) NOT NULL,
	torch_version VARCHAR(64) NOT NULL,
	precision VARCHAR(16) NOT NULL,
	threads INTEGER NOT NULL,
	kernel VARCHAR(64) NOT NULL,
	bit_equal INTEGER NOT NULL,
	accuracy FLOAT,
	training_seconds FLOAT,
	best_epoch INTEGER,
	parameters INTEGER,
	test_accuracy FLOAT,
	PRIMARY KEY (study_id, number, run)
);
INSERT INTO "fastrcaps_runs" VALUES(1,0,0,0,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',1,0.1,5.15589480000926414504e-02,1,61706,NULL);
INSERT INTO "fastrcaps_runs" VALUES(1,1,0,0,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',1,0.1,3.7630266999258310534e-02,1,61706,NULL);
INSERT INTO "fastrcaps_runs" VALUES(1,2,0,0,'cpu','CPU of a machine','2.14.1+cu130','fp32',1,'eager-1',1,0.1,2.94968219986913027241e-02,1,61706,0.1);
CREATE TABLE fastrcaps_schema (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
INSERT INTO "fastrcaps_schema" VALUES(1);
CREATE TABLE fastrcaps_studies (
	study_id INTEGER NOT NULL,
	name VARCHAR(64) NOT NULL,
	uid VARCHAR(32) NOT NULL,
	definition TEXT NOT NULL,
	seed INTEGER NOT NULL,
	budget INTEGER NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (study_id),
	UNIQUE (name)
);
INSERT INTO "fastrcaps_studies" VALUES(1,'tiny','721eea52cf66498497584d7e19d4bc1a','{"name": "tiny", "network": "lenet5", "data_set": "mnist-mini", "epochs": 2, "evaluate_on": "validation", "runs_per_trial": 1, "batch_size": 16, "boundaries": [1], "precision": "fp32", "early_stopping": "off", "train_images": 64, "shifts": true, "lr_max": 0.001, "lr_min": 0.0001, "polynomial_power": 2.0, "routing_gradient": "full", "space": {"lr_policy": ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"], "batch_policy": ["constant", "adabatch"], "adabatch_exponent": [2, 3]}, "configuration": null}',0,3,1.79583210674091315272e+09);
CREATE TABLE fastrcaps_trials (
	study_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	assignment TEXT NOT NULL,
	configuration_key VARCHAR(64) NOT NULL,
	state VARCHAR(16) NOT NULL,
	token INTEGER NOT NULL,
	accuracy FLOAT,
	training_seconds FLOAT,
	parameters FLOAT,
	failure_kind VARCHAR(128),
	failure_message TEXT,
	failure_trace TEXT,
	log_path TEXT,
	created_at FLOAT NOT NULL,
	finished_at FLOAT,
	PRIMARY KEY (study_id, number),
	UNIQUE (study_id, configuration_key)
);
INSERT INTO "fastrcaps_trials" VALUES(1,0,'{"lr_policy": "fixed", "batch_policy": "constant"}','b6f7f143144417e1b42965f8f96537b6a061143acf2da1e4f184750645bdae5e','complete',1,0.1,5.15589480000926414504e-02,61706.0,NULL,NULL,NULL,NULL,1.79583212162022972106e+09,1.7958321257762956619e+09);
INSERT INTO "fastrcaps_trials" VALUES(1,1,'{"lr_policy": "exponential_decay", "batch_policy": "constant"}','3d870bcab2110513f235d921e92b0db1a67cd20a8323077321fee286c477447f','complete',1,0.1,3.7630266999258310534e-02,61706.0,NULL,NULL,NULL,NULL,1.79583212202399134633e+09,1.79583212607406973834e+09);
INSERT INTO "fastrcaps_trials" VALUES(1,2,'{"lr_policy": "one_cycle", "batch_policy": "constant"}','64fcedee89e763359e62b6cbd8627ed3e4c504d27d771932e8a236798436b4d7','complete',2,0.1,2.94968219986913027241e-02,61706.0,NULL,NULL,NULL,NULL,1.7958321258638253212e+09,1.79583212617908954617e+09);
CREATE TABLE studies (
	study_id INTEGER NOT NULL,
	study_name VARCHAR(512) NOT NULL,
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'tiny');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL,
	direction VARCHAR(8) NOT NULL,
	study_id INTEGER NOT NULL,
	objective INTEGER NOT NULL,
	PRIMARY KEY (study_direction_id),
	UNIQUE (study_id, objective),
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MAXIMIZE',1,0);
INSERT INTO "study_directions" VALUES(2,'MINIMIZE',1,1);
INSERT INTO "study_directions" VALUES(3,'MINIMIZE',1,2);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL,
	study_id INTEGER,
	"key" VARCHAR(512),
	value_json TEXT,
	PRIMARY KEY (study_system_attribute_id),
	UNIQUE (study_id, "key"),
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_system_attributes" VALUES(1,1,'study:metric_names','["accuracy", "training_seconds", "parameters"]');
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL,
	study_id INTEGER,
	"key" VARCHAR(512),
	value_json TEXT,
	PRIMARY KEY (study_user_attribute_id),
	UNIQUE (study_id, "key"),
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL,
	trial_id INTEGER NOT NULL,
	heartbeat DATETIME NOT NULL,
	PRIMARY KEY (trial_heartbeat_id),
	UNIQUE (trial_id),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL,
	trial_id INTEGER NOT NULL,
	step INTEGER NOT NULL,
	intermediate_value FLOAT,
	intermediate_value_type VARCHAR(7) NOT NULL,
	PRIMARY KEY (trial_intermediate_value_id),
	UNIQUE (trial_id, step),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL,
	trial_id INTEGER,
	param_name VARCHAR(512),
	param_value FLOAT,
	distribution_json TEXT,
	PRIMARY KEY (param_id),
	UNIQUE (trial_id, param_name),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'lr_policy',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"]}}');
INSERT INTO "trial_params" VALUES(2,1,'batch_policy',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["constant", "adabatch"]}}');
INSERT INTO "trial_params" VALUES(3,2,'lr_policy',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"]}}');
INSERT INTO "trial_params" VALUES(4,2,'batch_policy',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["constant", "adabatch"]}}');
INSERT INTO "trial_params" VALUES(5,3,'lr_policy',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"]}}');
INSERT INTO "trial_params" VALUES(6,3,'batch_policy',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["constant", "adabatch"]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL,
	trial_id INTEGER,
	"key" VARCHAR(512),
	value_json TEXT,
	PRIMARY KEY (trial_system_attribute_id),
	UNIQUE (trial_id, "key"),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL,
	trial_id INTEGER,
	"key" VARCHAR(512),
	value_json TEXT,
	PRIMARY KEY (trial_user_attribute_id),
	UNIQUE (trial_id, "key"),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'fastrcaps:trial','0');
INSERT INTO "trial_user_attributes" VALUES(2,1,'policy','"fixed"');
INSERT INTO "trial_user_attributes" VALUES(3,2,'fastrcaps:trial','1');
INSERT INTO "trial_user_attributes" VALUES(4,2,'policy','"exponential_decay"');
INSERT INTO "trial_user_attributes" VALUES(5,3,'fastrcaps:trial','2');
INSERT INTO "trial_user_attributes" VALUES(6,3,'policy','"one_cycle"');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL,
	trial_id INTEGER NOT NULL,
	objective INTEGER NOT NULL,
	value FLOAT,
	value_type VARCHAR(7) NOT NULL,
	PRIMARY KEY (trial_value_id),
	UNIQUE (trial_id, objective),
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,0.1,'FINITE');
INSERT INTO "trial_values" VALUES(2,1,1,5.15589480000926414504e-02,'FINITE');
INSERT INTO "trial_values" VALUES(3,1,2,61706.0,'FINITE');
INSERT INTO "trial_values" VALUES(4,2,0,0.1,'FINITE');
INSERT INTO "trial_values" VALUES(5,2,1,3.7630266999258310534e-02,'FINITE');
INSERT INTO "trial_values" VALUES(6,2,2,61706.0,'FINITE');
INSERT INTO "trial_values" VALUES(7,3,0,0.1,'FINITE');
INSERT INTO "trial_values" VALUES(8,3,1,2.94968219986913027241e-02,'FINITE');
INSERT INTO "trial_values" VALUES(9,3,2,61706.0,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL,
	number INTEGER,
	study_id INTEGER,
	state VARCHAR(8) NOT NULL,
	datetime_start DATETIME,
	datetime_complete DATETIME,
	PRIMARY KEY (trial_id),
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-28 02:15:21.727383','2026-11-28 02:15:25.831231');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-28 02:15:22.084975','2026-11-28 02:15:26.134261');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-28 02:15:25.877813','2026-11-28 02:15:26.197446');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL,
	schema_version INTEGER,
	library_version VARCHAR(256),
	PRIMARY KEY (version_info_id),
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
