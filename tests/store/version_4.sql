BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE fastrcaps_claims (
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	token INTEGER NOT NULL, 
	worker TEXT NOT NULL, 
	host TEXT NOT NULL, 
	device TEXT NOT NULL, 
	claimed_at FLOAT NOT NULL, 
	PRIMARY KEY (study_id, number, token)
);
INSERT INTO "fastrcaps_claims" VALUES(1,0,1,'w0','another-machine/0123','cpu',1.79587797216599273685e+09);
INSERT INTO "fastrcaps_claims" VALUES(1,1,1,'w0','another-machine/0123','cpu',1.7958779722670183182e+09);
INSERT INTO "fastrcaps_claims" VALUES(1,2,1,'w0','another-machine/0123','cpu',1795877972.30701);
CREATE TABLE fastrcaps_crews (
	study_id INTEGER NOT NULL, 
	device_name TEXT NOT NULL, 
	cores INTEGER NOT NULL, 
	workers INTEGER NOT NULL, 
	threads INTEGER NOT NULL, 
	measured TEXT NOT NULL, 
	chosen_at FLOAT NOT NULL, 
	PRIMARY KEY (study_id, device_name, cores)
);
CREATE TABLE fastrcaps_epochs (
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	token INTEGER NOT NULL, 
	worker TEXT NOT NULL, 
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
	device TEXT NOT NULL, 
	device_name TEXT NOT NULL, 
	torch_version VARCHAR(64) NOT NULL, 
	precision VARCHAR(16) NOT NULL, 
	threads INTEGER NOT NULL, 
	kernel VARCHAR(64) NOT NULL, 
	sharing INTEGER NOT NULL, 
	stored_at FLOAT, 
	PRIMARY KEY (study_id, number, run, epoch)
);
INSERT INTO "fastrcaps_epochs" VALUES(1,0,0,1,1,'w0',16,0.001,0.001,0.5,0.4,0.1,0.8,0.9,2.0,0.1,4,64,'cpu','CPU','2.14','fp32',1,'eager',1,1.79587797223998165132e+09);
INSERT INTO "fastrcaps_epochs" VALUES(1,0,1,1,1,'w0',16,0.001,0.001,0.5,0.4,0.1,0.8,0.92,4.0,0.1,4,64,'cpu','CPU','2.14','fp32',1,'eager',1,1.7958779722549886703e+09);
INSERT INTO "fastrcaps_epochs" VALUES(1,2,0,1,1,'w0',16,0.001,0.001,0.5,0.4,0.1,0.8,0.9,2.0,0.1,4,64,'cpu','CPU','2.14','fp32',1,'eager',1,1.79587797236200857158e+09);
CREATE TABLE fastrcaps_leases (
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	token INTEGER NOT NULL, 
	worker TEXT NOT NULL, 
	host TEXT NOT NULL, 
	boot_id VARCHAR(64) NOT NULL, 
	pid_namespace VARCHAR(64) NOT NULL, 
	pid INTEGER NOT NULL, 
	process_start BIGINT NOT NULL, 
	device TEXT NOT NULL, 
	claimed_at FLOAT NOT NULL, 
	renewed_at FLOAT, 
	lease_seconds FLOAT, 
	suspected_at FLOAT, 
	nonce VARCHAR(32), 
	PRIMARY KEY (study_id, number)
);
INSERT INTO "fastrcaps_leases" VALUES(1,2,1,'w0','another-machine/0123','b','pid:[1]',1,1,'cpu',1795877972.30701,1795877972.30701,30.0,NULL,'8967d1e389164a89ab5b1b11fbb80057');
CREATE TABLE fastrcaps_runs (
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	seed BIGINT NOT NULL, 
	device TEXT NOT NULL, 
	device_name TEXT NOT NULL, 
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
INSERT INTO "fastrcaps_runs" VALUES(1,0,0,0,'cpu','CPU','2.14','fp32',1,'eager',1,0.9,2.0,1,61706,NULL);
INSERT INTO "fastrcaps_runs" VALUES(1,0,1,1,'cpu','CPU','2.14','fp32',1,'eager',1,0.92,4.0,1,61706,NULL);
INSERT INTO "fastrcaps_runs" VALUES(1,1,0,0,'cpu','CPU','2.14','fp32',1,'eager',1,0.5,1.0,1,61706,NULL);
INSERT INTO "fastrcaps_runs" VALUES(1,2,0,0,'cpu','CPU','2.14','fp32',1,'eager',1,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE fastrcaps_schema (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "fastrcaps_schema" VALUES(4);
CREATE TABLE fastrcaps_studies (
	study_id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	uid VARCHAR(32) NOT NULL, 
	definition TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	budget INTEGER NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (study_id), 
	UNIQUE (name)
);
INSERT INTO "fastrcaps_studies" VALUES(1,'tiny','dedcaf377c5a47a8af6f1e751f889764','{"name": "tiny", "network": "lenet5", "data_set": "mnist-mini", "epochs": 2, "evaluate_on": "validation", "runs_per_trial": 2, "batch_size": 16, "boundaries": [1], "precision": "fp32", "early_stopping": "off", "train_images": 64, "shifts": true, "lr_max": 0.001, "lr_min": 0.0001, "polynomial_power": 2.0, "routing_gradient": "full", "space": {"lr_policy": ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"], "batch_policy": ["constant", "adabatch"], "adabatch_exponent": [2, 3]}, "configuration": null}',0,3,1.79587797201000905038e+09);
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
	failure_kind TEXT, 
	failure_message TEXT, 
	failure_trace TEXT, 
	log_path TEXT, 
	created_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	deaths INTEGER DEFAULT '0' NOT NULL, 
	device_faults INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (study_id, number), 
	UNIQUE (study_id, configuration_key)
);
INSERT INTO "fastrcaps_trials" VALUES(1,0,'{"lr_policy": "fixed", "batch_policy": "constant"}','b6f7f143144417e1b42965f8f96537b6a061143acf2da1e4f184750645bdae5e','complete',1,0.91,3.0,61706.0,NULL,NULL,NULL,NULL,1.79587797216498708729e+09,1.79587797225700020794e+09,0,0);
INSERT INTO "fastrcaps_trials" VALUES(1,1,'{"lr_policy": "exponential_decay", "batch_policy": "constant"}','3d870bcab2110513f235d921e92b0db1a67cd20a8323077321fee286c477447f','complete',1,0.5,1.0,61706.0,NULL,NULL,NULL,NULL,1.79587797226601243024e+09,1.79587797230298662183e+09,0,0);
INSERT INTO "fastrcaps_trials" VALUES(1,2,'{"lr_policy": "one_cycle", "batch_policy": "constant"}','64fcedee89e763359e62b6cbd8627ed3e4c504d27d771932e8a236798436b4d7','running',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.79587797230600404734e+09,NULL,0,0);
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
INSERT INTO "trial_values" VALUES(1,1,0,0.91,'FINITE');
INSERT INTO "trial_values" VALUES(2,1,1,3.0,'FINITE');
INSERT INTO "trial_values" VALUES(3,1,2,61706.0,'FINITE');
INSERT INTO "trial_values" VALUES(4,2,0,0.5,'FINITE');
INSERT INTO "trial_values" VALUES(5,2,1,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(6,2,2,61706.0,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-28 14:59:32.164987','2026-11-28 14:59:32.257000');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-28 14:59:32.266012','2026-11-28 14:59:32.302987');
INSERT INTO "trials" VALUES(3,2,1,'RUNNING','2026-11-28 14:59:32.306004',NULL);
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
